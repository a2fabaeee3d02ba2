/** The packed file, installed into empty projects: the first programs of the READMEs, and the types as projects see them. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { startServer } from "../servers.ts";

const packed = path.resolve(import.meta.dirname, "../..");
const root = path.resolve(packed, "../..");
const project = mkdtempSync(path.join(tmpdir(), "redis-lock-adapters-"));
after(() => rmSync(project, { recursive: true, force: true }));

const run = (program: string, ...given: string[]): string => {
  try {
    return execFileSync(program, given, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${program} ${given.join(" ")}: ${stdout}${stderr}`);
  }
};
const write = (name: string, text: string): void => writeFileSync(path.join(project, name), text);
const version = (name: string): string =>
  (JSON.parse(readFileSync(path.join(root, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

/** Compiles a file in strict mode, unless the options say otherwise. */
function compile(file: string, options: object): void {
  const compilerOptions = { strict: true, target: "es2022", lib: ["es2022", "esnext.disposable"], types: ["node"], ...options };
  write("tsconfig.json", JSON.stringify({ files: [file], compilerOptions }));
  run(process.execPath, path.join(root, "node_modules/typescript/bin/tsc"));
}

before(() => {
  const file = readdirSync(packed).find((name) => name.endsWith(".tgz"));
  assert(file);
  write("package.json", '{ "private": true }'); // as `npm init` and `nest new` make it: CommonJS
  const peers = ["ioredis", "@opentelemetry/api", "@nestjs/common", "@nestjs/core", "reflect-metadata", "rxjs"].map((name) => `${name}@${version(name)}`);
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", path.join(packed, file), ...peers);
  symlinkSync(path.join(root, "node_modules/@types"), path.join(project, "node_modules/@types"), "dir");
});

function firstProgram(readme: string, port: number): string {
  const file = path.join(project, "node_modules/redis-lock-client", readme);
  const [, first = ""] = /```[jt]s\n([^]*?)```/.exec(readFileSync(file, "utf8")) ?? [];
  const pasted = first.replace("new Redis()", `new Redis(${port})`);
  assert.notEqual(pasted, first);
  return pasted;
}

test("redlock's first program works when pasted, and in CommonJS", async () => {
  const { port } = await startServer();
  write("shop.mjs", firstProgram("redlock/README.md", port));
  assert.match(run(process.execPath, "shop.mjs"), /^worked under the lock: 3 fence writes with \d{16}\n$/);
  write("shop.cjs", `const { default: Redlock, ExecutionError } = require("redis-lock-client/redlock");
    const { Redis } = require("ioredis");
    (async () => {
      const esm = await import("redis-lock-client/redlock");
      const redlock = new Redlock([new Redis(${port})], { retryCount: 0 });
      await redlock.acquire(["a"], 5000);
      await redlock.acquire(["a"], 5000).catch((error) => console.log(error instanceof ExecutionError, esm.default === Redlock));
      await redlock.quit();
    })();`);
  assert.equal(run(process.execPath, "shop.cjs"), "true true\n");
});

test("the NestJS module's first program works when pasted into a project of Nest", async () => {
  const { port } = await startServer();
  write("main.ts", firstProgram("nestjs/README.md", port));
  compile("main.ts", { module: "nodenext", isolatedModules: true, skipLibCheck: true, experimentalDecorators: true, emitDecoratorMetadata: true });
  assert.match(run(process.execPath, "main.js"), /^(order [12] fence writes with \d{16}\n){3}free again: true\n$/);
});

test("the metrics' first program works when pasted, and in CommonJS", async () => {
  const { port } = await startServer();
  write("otel.mjs", firstProgram("otel/README.md", port));
  assert.equal(run(process.execPath, "otel.mjs"), "measured\n");
  write("otel.cjs", `const { lockMetrics } = require("redis-lock-client/otel");
    import("redis-lock-client/otel").then((esm) => console.log(esm.lockMetrics === lockMetrics));`);
  assert.equal(run(process.execPath, "otel.cjs"), "true\n");
});

test("the types are found by every resolution, with nothing skipped where the frameworks allow that", () => {
  const use = (imports: string): string => `${imports}
    import { Redis } from "ioredis";
    import { Locks } from "redis-lock-client";
    import { lockMetrics } from "redis-lock-client/otel";
    import { metrics } from "@opentelemetry/api";
    export const redlock = new Redlock([new Redis()], { retryCount: 1 } satisfies Partial<Settings>);
    export const locks = new Locks(new Redis(), { observer: lockMetrics(metrics.getMeter("shop")) });`;
  const redlock = `import Redlock, { type Settings } from "redis-lock-client/redlock";`;
  write("use.mts", use(redlock));
  compile("use.mts", { module: "nodenext", noEmit: true });
  write("use.cts", use(`import redlock_ = require("redis-lock-client/redlock"); const Redlock = redlock_.default; type Settings = redlock_.Settings;`));
  compile("use.cts", { module: "nodenext", noEmit: true });
  write("old.ts", use(`${redlock} import { LocksModule } from "redis-lock-client/nestjs"; export { LocksModule };`));
  compile("old.ts", { module: "commonjs", moduleResolution: "node10", esModuleInterop: true, skipLibCheck: true, noEmit: true });
});
