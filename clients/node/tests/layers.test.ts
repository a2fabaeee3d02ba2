/** The modules: no import leads round in a circle, and the state knows neither I/O nor time. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const src = path.resolve(import.meta.dirname, "../../src");
const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
const imports = new Map(files.map((file) => {
  const text = readFileSync(path.join(src, file), "utf8");
  const names = [...text.matchAll(/(?:from|import) "(\.[^"]+|node:[^"]+)"/g)].map(([, name = ""]) => name);
  return [file, names.map((name) => (name.startsWith(".") ? path.join(path.dirname(file), name) : name))];
}));

test("no import leads round in a circle", () => {
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]): void => {
    assert(!trail.includes(file), `a circle: ${[...trail, file].join(" → ")}`);
    if (done.has(file)) return;
    for (const name of imports.get(file) ?? []) visit(name, [...trail, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
});

test("the state has no I/O, timers or clock", () => {
  for (const [file, names] of imports) {
    if (!file.startsWith("state")) continue;
    const allowed = names.every((name) => name.startsWith("state/") || name === "errors.ts");
    assert(allowed, `${file} imports ${names.join(", ")}`);
    assert(!/setTimeout|performance|Date\.|await /.test(readFileSync(path.join(src, file), "utf8")), file);
  }
});
