import assert from "node:assert/strict";
import { isUlid, newUlid } from "../../src/config/ulid.ts";

Deno.test("ulid: ids ascend within a millisecond and when the clock steps back", () => {
  const now = Date.now();
  const ids = [
    ...Array.from({ length: 1000 }, () => newUlid(now)),
    newUlid(now - 60_000),
    newUlid(now + 1),
  ];
  assert.deepEqual(ids, [...ids].sort());
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.ok(isUlid(id), id);
});

Deno.test("ulid: the time can be read back", () => {
  // 2100-01-01 in milliseconds, in the base of 32 of ULIDs.
  assert.equal(newUlid(Date.UTC(2100, 0, 1)).slice(0, 10), "03QCPC7P00");
});

Deno.test("ulid: only 26 upper-case Crockford characters that fit 128 bits are one", () => {
  assert.ok(isUlid("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
  assert.ok(isUlid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
  for (
    const not of [
      "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
      "01arz3ndektsv4rrffq69g5fav",
      "01ARZ3NDEKTSV4RRFFQ69G5FA",
      "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
      "01ARZ3NDEKTSV4RRFFQ69G5FAI",
      "01ARZ3NDEKTSV4RRFFQ69G5FA\n",
      "",
      undefined,
      7,
    ]
  ) assert.ok(!isUlid(not), String(not));
});
