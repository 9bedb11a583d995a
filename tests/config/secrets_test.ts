import assert from "node:assert/strict";
import { HIDDEN, hideSecretArguments, isSecretName, presentConfig } from "../../src/config/secrets.ts";

Deno.test("secrets: names that hold them, and names that only look like it", () => {
  for (
    const name of ["WANDB_API_KEY", "--api-key", "HF_TOKEN", "password", "db_passwd", "AWS_SECRET_ACCESS_KEY", "key"]
  ) {
    assert.ok(isSecretName(name), name);
  }
  for (const name of ["tokenizer", "--max-tokens", "TOKENS", "keyboard", "monkey", "learning_rate"]) {
    assert.ok(!isSecretName(name), name);
  }
});

Deno.test("secrets: words of a command line lose the values of such options, and nothing else", () => {
  const cases: [string[], string[]][] = [
    [["--api-key=abc", "--lr=1"], [`--api-key=${HIDDEN}`, "--lr=1"]],
    [["--api-key", "abc", "rest"], ["--api-key", HIDDEN, "rest"]],
    [["--token", "--fast", "x"], ["--token", "--fast", "x"]],
    [["env", "HF_TOKEN=abc=def", "train.py"], ["env", `HF_TOKEN=${HIDDEN}`, "train.py"]],
    [["-c", "print('key=1')", "--tokenizer=gpt2"], ["-c", "print('key=1')", "--tokenizer=gpt2"]],
    [["--db=postgres://me:pw@host/x"], [`--db=postgres://me:${HIDDEN}@host/x`]],
    [["--password=", "train"], ["--password=", "train"]],
  ];
  for (const [words, shown] of cases) assert.deepEqual(hideSecretArguments(words), shown);
});

Deno.test("secrets: a config is shown without them, digit by digit, and whole to who asks", () => {
  const config =
    `{"environment":{"WANDB_API_KEY":"abc","URL":"https://me:pw@host/"},"lr":1.0,"big":12345678901234567890,` +
    `"metadata":{"worker":{"arguments":["--api-key=xyz","--seed","1"]}},"key":7}`;
  const { text, hidden } = presentConfig(config, false);
  assert.equal(hidden, 3);
  for (const secret of ["abc", "xyz", ":pw@"]) assert.ok(!text.includes(secret), text);
  for (const plain of ['"lr": 1.0', '"big": 12345678901234567890', '"--seed"', '"key": 7', "me:"]) {
    assert.ok(text.includes(plain), text);
  }
  const whole = presentConfig(config, true);
  assert.deepEqual([whole.hidden, whole.text.replace(/\s/g, "")], [0, config.replace(/\s/g, "")]);
});

Deno.test("secrets: those in a list under a secret name are hidden, too", () => {
  const { text, hidden } = presentConfig(
    '{"api_keys":["one","two",3],"AUTHORIZATION":"Bearer x","SSH_PASSPHRASE":"y","keys":["left","right"]}',
    false,
  );
  assert.deepEqual(JSON.parse(text), {
    api_keys: [HIDDEN, HIDDEN, 3],
    AUTHORIZATION: HIDDEN,
    SSH_PASSPHRASE: HIDDEN,
    keys: ["left", "right"],
  });
  assert.equal(hidden, 4);
});

Deno.test("secrets: all texts below a secret name are hidden, however deep, and what is beside them is not", () => {
  const config =
    `{"metadata":{"credentials":{"user":"me","hosts":[{"name":"a","port":1.0}],"nothing":null,"empty":""},` +
    `"stages":[{"password":"p","name":"first"},["--token","t"]],"tokens":{"per_step":"many"}}}`;
  const { text, hidden } = presentConfig(config, false);
  assert.deepEqual(JSON.parse(text).metadata, {
    credentials: { user: HIDDEN, hosts: [{ name: HIDDEN, port: 1 }], nothing: null, empty: "" },
    stages: [{ password: HIDDEN, name: "first" }, ["--token", HIDDEN]],
    tokens: { per_step: "many" },
  });
  assert.ok(text.includes('"port": 1.0'));
  assert.equal(hidden, 4);
});
