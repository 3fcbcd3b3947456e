// Bundles src/ into dist/, with the licenses of what is in the bundle beside it.
import { build } from "esbuild";
import { cp, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const result = await build({
  entryPoints: ["src/main.tsx", "src/style.css"],
  outdir: "dist", bundle: true, splitting: true, minify: true, format: "esm", target: "es2022", metafile: true, legalComments: "none",
  jsx: "automatic", jsxImportSource: "preact", logLevel: "warning",
});
await cp("src/index.html", "dist/index.html");
await cp("src/icon.svg", "dist/icon.svg");

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const inside = input.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (inside) packages.add(inside[1]);
}
let text = "The page contains these packages of others.\n";
for (const name of [...packages].sort()) {
  const folder = join("node_modules", name);
  const about = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((f) => /^(licen[sc]e|copying)/i.test(f));
  text += `\n==== ${name} ${about.version}: ${about.license}\n\n` + (file ? await readFile(join(folder, file), "utf8") : "");
}
await writeFile("dist/licenses.txt", text);
