/** The package as users get it: built, installed into an empty project, and used as the README says. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { ends, startServer } from "./servers.ts";

const root = path.resolve(import.meta.dirname, "../..");
const version = (name: string): string =>
  (JSON.parse(readFileSync(path.join(root, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

test("the README's first program works in a default project, and the types in all forms", { timeout: 120_000 }, async () => {
  const server = await startServer();
  const project = mkdtempSync(path.join(tmpdir(), "redis-lock-client-"));
  ends.push(() => rmSync(project, { recursive: true }));
  const run = (program: string, ...given: string[]): string =>
    execFileSync(program, given, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const write = (name: string, text: string): void => writeFileSync(path.join(project, name), text);

  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", project], { cwd: root, encoding: "utf8" });
  const file = packed.trim().split("\n").at(-1);
  assert.equal(file, "redis-lock-client-0.3.0.tgz");
  const inside = run("tar", "tzf", file).split("\n");
  for (const name of ["README.md", "LICENSE", "CHANGELOG.md", "dist/index.js", "dist/index.d.ts", "dist/cjs/index.js"]) {
    assert(inside.includes(`package/${name}`), name);
  }
  assert(!inside.some((name) => /tests|trial|node_modules/.test(name)));
  run("npm", "init", "--yes"); // a CommonJS project
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", `./${file}`, `ioredis@${version("ioredis")}`);

  const readme = readFileSync(path.join(root, "README.md"), "utf8");
  const programs = [...readme.matchAll(/```ts\n([^]*?)```/g)].map(([, text = ""]) => text);
  const [first = ""] = programs;
  const pasted = first.replace("new Redis()", `new Redis(${server.port})`);
  assert.notEqual(pasted, first);
  write("first.mjs", pasted);
  write("first.mts", pasted);
  assert.match(run(process.execPath, "first.mjs"), /^fence writes with \d{16}\n$/);
  write("unit.mjs", programs.find((text) => text.includes("TestServer")) ?? "");
  assert.equal(run(process.execPath, "unit.mjs"), "");

  // CommonJS, and one family of errors for both.
  write("both.js", `const { Locks, LockMisuse } = require("redis-lock-client");
    const { TestServer } = require("redis-lock-client/testing");
    const { Redis } = require("ioredis");
    import("redis-lock-client").then(async (esm) => {
      const redis = new Redis(${server.port}), locks = new Locks(redis);
      await locks.lock("a").run(({ token }) => token > 0 && console.log("held"));
      await locks.close();
      redis.disconnect();
      await locks.lock("a").acquire().catch((error) => console.log(error instanceof esm.LockMisuse, esm.LockMisuse === LockMisuse));
      new Locks(new TestServer());
    });`);
  assert.equal(run(process.execPath, "both.js"), "held\ntrue true\n");

  // The types, with nothing skipped, of both forms.
  for (const name of ["node_modules/typescript", "node_modules/@types"]) {
    symlinkSync(path.join(root, name), path.join(project, name), "dir");
  }
  write("use.cts", `import { Redis } from "ioredis";
    import { Locks, type Grant } from "redis-lock-client";
    import { TestServer } from "redis-lock-client/testing";
    export const held = (redis: Redis): Promise<Grant | undefined> => new Locks(redis).lock("a", { wait: 5 }).tryAcquire();
    export const standIn = (): Locks => new Locks(new TestServer());
    export async function using(redis: Redis): Promise<number> {
      await using grant = await new Locks(redis).permit("a", { of: 2 }).acquire();
      return grant.token;
    }`);
  const compile = (files: string[], more: object): string => {
    write("tsconfig.json", JSON.stringify({ files, compilerOptions: { strict: true, noEmit: true, target: "es2022",
      lib: ["es2022", "esnext.disposable"], types: ["node"], exactOptionalPropertyTypes: true, ...more } }));
    return run(process.execPath, "node_modules/typescript/bin/tsc");
  };
  compile(["first.mts", "use.cts"], { module: "nodenext" });
  write("old.ts", `import { Locks, QuorumLocks } from "redis-lock-client";
    import { TestServer } from "redis-lock-client/testing";
    export const all: unknown[] = [Locks, QuorumLocks, TestServer];`);
  compile(["old.ts"], { module: "commonjs", moduleResolution: "node10", esModuleInterop: true, skipLibCheck: true });
});
