"""Hugging Face's Trainer on a tiny model made here: dictionaries on standard output, event files beside it."""
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
data = [{"input_ids": torch.randint(0, 50, (12,)), "labels": torch.tensor(i % 2)} for i in range(64)]
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
arguments = TrainingArguments("out", num_train_epochs=3, per_device_train_batch_size=8, logging_steps=1,
                              report_to=["tensorboard"], disable_tqdm=True, use_cpu=True, save_strategy="no")
Trainer(BertForSequenceClassification(config), arguments, train_dataset=data, eval_dataset=data[:16]).train()
