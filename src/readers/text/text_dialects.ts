/**
 * The dialects of printed text, by the names that a config uses:
 * - `json`: `{"step": 10, "loss": 0.3}` without a type
 * - `python_dict`: `{'loss': 0.3, 'epoch': 1.0}`
 * - `key_value`: `global_step=128, episodic_return=[12.]`
 * - `words`: `Epoch 3/10 - loss: 0.31`, `step 200 loss 0.57`
 * - `bar`: progress bars of tqdm and Keras, and the values beside them
 * - `table`: the block between dashes of Stable-Baselines3
 * - `episode`: Gymnasium's `r`, `l` and `t` in an object of either kind, and `episodic_return`
 * - `trial`: the end of a trial of Optuna
 */
export const TEXT_DIALECTS = [
  "json",
  "python_dict",
  "key_value",
  "words",
  "bar",
  "table",
  "episode",
  "trial",
] as const;
export type TextDialect = typeof TEXT_DIALECTS[number];
