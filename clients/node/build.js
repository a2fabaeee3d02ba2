// Builds dist: one implementation in CommonJS, so that `instanceof` holds however the package is loaded, and a
// module that passes its names on.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

process.chdir(import.meta.dirname ?? new URL(".", import.meta.url).pathname);
rmSync("dist", { recursive: true, force: true });
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "--project", "tsconfig.dist.json"], { stdio: "inherit" });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
for (const file of ["dist/index.js", "dist/index.d.ts"]) writeFileSync(file, 'export * from "./cjs/index.js";\n');
