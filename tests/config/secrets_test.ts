import assert from "node:assert/strict";
import {
  HIDDEN,
  hideSecret,
  hideSecretArguments,
  isSecretName,
} from "../../src/base/text/secrets.ts";
import { presentConfig } from "../../src/config/present_config.ts";

Deno.test("secrets: names that hold them, and names that only look like it", () => {
  for (
    const name of [
      "WANDB_API_KEY",
      "--api-key",
      "HF_TOKEN",
      "password",
      "db_passwd",
      "AWS_SECRET_ACCESS_KEY",
      "key",
    ]
  ) {
    assert.ok(isSecretName(name), name);
  }
  for (
    const name of ["tokenizer", "--max-tokens", "TOKENS", "keyboard", "monkey", "learning_rate"]
  ) {
    assert.ok(!isSecretName(name), name);
  }
});

Deno.test("secrets: further names of them", () => {
  for (
    const name of [
      "DB_PASS",
      "--pass",
      "SMTP-PASS",
      "GITHUB_PAT",
      "DB_PWD",
      "SLACK_WEBHOOK_URL",
      "BEARER",
      "COOKIE",
    ]
  ) {
    assert.ok(isSecretName(name), name);
  }
  for (
    const name of [
      "PWD",
      "OLDPWD",
      "path",
      "--first-pass-steps",
      "passes",
      "bypass",
      "webhook",
      "patience",
    ]
  ) {
    assert.ok(!isSecretName(name), name);
  }
});

/** Made up, in the form of each; put together here so that no scanner takes them for real ones. */
const made = (prefix: string, length: number) => prefix + "Ab3".repeat(length).slice(0, length);

Deno.test("secrets: what looks like one is hidden under any name, and the rest of its text is not", () => {
  const cases: [text: string, shown: string][] = [
    ...["ghp_", "gho_", "github_pat_", "glpat-", "hf_", "sk-", "sk-proj-", "xoxb-", "npm_"].map(
      (prefix): [string, string] => [`use ${made(prefix, 40)} now`, `use ${HIDDEN} now`],
    ),
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", HIDDEN],
    ["postgres://me:p@ss@db:5432/x", `postgres://me:${HIDDEN}@db:5432/x`],
    ["redis://:pw@host/0", `redis://:${HIDDEN}@host/0`],
    [`https://${made("", 32)}@sentry.example/7`, `https://${HIDDEN}@sentry.example/7`],
    ["me:pw@tcp(db:3306)/runs", `me:${HIDDEN}@tcp(db:3306)/runs`],
    ["host=db user=me password=pw dbname=x", `host=db user=me password=${HIDDEN} dbname=x`],
    ["https://x.example/a?api_key=abc&b=1", `https://x.example/a?api_key=${HIDDEN}&b=1`],
    ["https://hooks.slack.com/services/T0/B0/xyz", `https://hooks.slack.com/${HIDDEN}`],
    ["https://discord.com/api/webhooks/1/xyz", `https://discord.com/api/webhooks/${HIDDEN}`],
    ["Authorization: Bearer abc", `Authorization: Bearer ${HIDDEN}`],
    ["authorization:abc", `authorization:${HIDDEN}`],
    ["X-Api-Key: abc", `X-Api-Key: ${HIDDEN}`],
    [
      `curl -H 'Authorization: Basic abc=' https://x`,
      `curl -H 'Authorization: Basic ${HIDDEN}' https://x`,
    ],
  ];
  for (const [text, shown] of cases) {
    assert.deepEqual(JSON.parse(presentConfig(JSON.stringify({ note: text }), false).text), {
      note: shown,
    });
    assert.deepEqual(hideSecretArguments(["run", text]), ["run", shown]);
  }
});

Deno.test("secrets: what only resembles one is shown", () => {
  for (
    const text of [
      "https://host:8080/path@x",
      "me@example.org",
      "sk-learn-pipeline-of-many-steps",
      "task-0123456789-0123456789",
      "hf_hub",
      "ghp_",
      "lr=0.1 seed=3",
      "tokens: 100",
      "max_tokens=100",
      "a bearer of news",
      "git@github.com:me/repo.git",
      "https://discord.com/channels/1",
    ]
  ) {
    assert.equal(hideSecret("note", text), text);
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
    [["--pass", "abc"], ["--pass", HIDDEN]],
    [["-H", "Authorization: Bearer abc"], ["-H", `Authorization: Bearer ${HIDDEN}`]],
    [["--header=Authorization: Bearer abc"], [`--header=Authorization: Bearer ${HIDDEN}`]],
    [["--auth", "Bearer", "abc"], ["--auth", "Bearer", HIDDEN]],
    [["python", "-u", "train.py"], ["python", "-u", "train.py"]],
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

Deno.test("secrets: a long text is looked through in time, whatever is in it", () => {
  const pieces = [
    "a",
    "a.",
    "a:",
    "a-",
    "sk-",
    "eyJ",
    "eyJ-",
    "eyJaaaaaaaaaa.",
    "a://",
    "a://b:",
    "a://:",
    "x@",
    "token",
  ];
  pieces.push(
    "token=",
    " token",
    "authorization: ",
    "authorization ",
    "bearer ",
    "https://a.",
    "password",
    "glpat-",
    "&a",
    " ",
  );
  for (const piece of pieces) {
    const text = piece.repeat(300_000 / piece.length);
    const began = performance.now();
    hideSecret("note", text);
    const ms = performance.now() - began;
    assert.ok(ms < 2000, `${piece}: ${ms} ms`);
  }
});
