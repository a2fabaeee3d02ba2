/** errors.json: what each error reply means, to each kind of call. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import {
  LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable,
} from "../src/index.ts";
import { ServerReply, attach, errorOf, meaning } from "../src/errors.ts";

interface Entry { readonly begins: string; readonly acquire: string; readonly renew: string; readonly release: string }
const file = path.resolve(import.meta.dirname, "../../../protocol/errors.json");
const { errors } = JSON.parse(readFileSync(file, "utf8")) as { errors: readonly Entry[] };
const CLASSES: Record<string, typeof LockError> = { lost: LockLost, misuse: LockMisuse, "not-alone": LockNotAlone,
  deadlock: LockDeadlock, refused: LockRefused, passing: LockUnavailable };

test("each error reply means what errors.json says", () => {
  assert(errors.length > 25);
  for (const entry of errors) {
    for (const kind of ["acquire", "renew", "release"] as const) {
      for (const text of [entry.begins, `${entry.begins} and more`]) {
        assert.equal(meaning(text, kind), entry[kind], `${text} to ${kind}`);
        const error = errorOf(new ServerReply(text), kind, "k");
        assert.equal(error.constructor, CLASSES[entry[kind]]);
      }
    }
  }
});

test("the errors are one family, with names and causes", () => {
  for (const it of [LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable]) {
    const error = new it("text", { key: "k", cause: "why" });
    assert(error instanceof LockError && error instanceof Error);
    assert.equal(error.name, it.name);
    assert.equal(String(error), `${it.name}: text`);
    assert.deepEqual([error.key, error.cause], ["k", "why"]);
  }
});

test("an error of the work keeps its own cause", () => {
  const mine = new Error("mine", { cause: "own" });
  attach(mine, new LockLost("lost"));
  assert.equal(mine.cause, "own");
  attach(Object.freeze(new Error("frozen")), new LockLost("lost"));
  attach("no error at all", new LockLost("lost"));
});
