// Draws docs/drawings/*.dot (Graphviz' language) as SVG beside them. Usage: node tools/drawings/draw.mjs [-check]
// With -check nothing is written, and a picture that is not what its source gives is an error. The same sources and lock file give
// the same bytes on every machine: Graphviz comes as WebAssembly with its own widths of letters, so that no font of the machine counts.
import { readFile, readdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const folder = new URL("../../docs/drawings/", import.meta.url);
const page = new URL("../../web/page/package.json", import.meta.url); // the lock file beside it pins Graphviz
const command = "make drawings";
const limit = 300_000; // bytes of all pictures: a document with them opens at once

// What the sources may give as class="…", in the colours of the page (web/page/src/style.css). The picture has its own ground: a
// reader's document may be dark where the system is light.
const style = `
svg { --ground: #fff; --text: #14242b; --faint: #52666f; --line: #52666f; --frame: #b9c7cd; --group: #f4f7f8;
  --ours: #d9f0f4; --ours-line: #0f6e84; --pure: #e6f2dc; --pure-line: #4a7a1f; --others: #eceff1; --others-line: #6b7d85; --data: #fff; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #10191d; --text: #e6eef1; --faint: #a3b5bd; --line: #a3b5bd; --frame: #3b4c54; --group: #162126;
    --ours: #12404c; --ours-line: #4fb6cb; --pure: #263d17; --pure-line: #8cc152; --others: #253238; --others-line: #8ea0a8; --data: #10191d; } }
.ground { fill: var(--ground); }
text { fill: var(--text); font: 12.5px Helvetica, Arial, "Liberation Sans", sans-serif; }
.edge path, .edge polyline { stroke: var(--line); } .edge polygon { fill: var(--line); stroke: var(--line); } .edge text { fill: var(--faint); font-size: 11px; }
.cluster path, .cluster polygon { fill: var(--group); stroke: var(--frame); } .cluster text { fill: var(--faint); font-size: 11.5px; }
.node path, .node polygon { fill: var(--data); stroke: var(--others-line); }
.ours path, .ours polygon { fill: var(--ours); stroke: var(--ours-line); }
.pure path, .pure polygon { fill: var(--pure); stroke: var(--pure-line); }
.others path, .others polygon { fill: var(--others); stroke: var(--others-line); }
.data path, .data polygon { stroke-dasharray: 4 3; }
`;
const classes = ["ours", "pure", "others", "data"];

// How all are drawn. Sizes are what room is made for, in points: a sixth more than the style sheet's, as many letters of DejaVu Sans are that
// much wider than those of Helvetica, which Graphviz knows.
const font = { fontname: "Helvetica" };
const attributes = {
  graphAttributes: { ...font, fontsize: 13.5, nodesep: 0.4, ranksep: 0.45, pad: 0.2, style: "rounded", labeljust: "l", compound: true },
  nodeAttributes: { ...font, fontsize: 14.5, shape: "box", style: "rounded,filled", margin: "0.15,0.08", height: 0.5 },
  edgeAttributes: { ...font, fontsize: 13, arrowsize: 0.7 },
};

// said is what a source's comment "// name: …" says.
function said(source, name, file) {
  const line = source.match(new RegExp(`^// ${name}: (.+)$`, "m"));
  if (!line) throw new Error(`${file}: add a line "// ${name}: …": readers of the screen hear it`);
  return line[1].replace(/&/g, "&amp;").replace(/</g, "&lt;");
}

// draw gives the SVG of one source.
function draw(viz, source, file) {
  for (const [, name] of source.matchAll(/class="?(\w+)/g)) {
    if (!classes.includes(name)) throw new Error(`${file}: there is no class ${name}: use one of ${classes.join(", ")}`);
  }
  const result = viz.render(source, { format: "svg", engine: "dot", ...attributes });
  const warnings = result.errors.map((e) => e.message);
  if (result.status !== "success" || warnings.length > 0) throw new Error(`${file}: ${warnings.join("; ")}`);

  const body = result.output
    .replace(/^[\s\S]*?<svg /, "<svg ")
    .replace(/<!--[\s\S]*?-->\n/g, "")
    .replace(/<title>[^<]*<\/title>\n/g, "") // names of nodes, which only the source uses
    .replace(/ id="[^"]*"/g, "")
    .replace("<svg ", '<svg role="img" aria-labelledby="title desc" ')
    .replace(/<polygon fill="[^"]*" stroke="none" points/, '<polygon class="ground" points');
  const head = `<title id="title">${said(source, "title", file)}</title>\n<desc id="desc">${said(source, "desc", file)}</desc>\n<style>${style}</style>\n`;
  return `<!-- ${command} draws this from ${file}; change that one. -->\n` + body.replace(/(<svg [^>]*>\n)/, "$1" + head);
}

async function run(check) {
  const viz = await createRequire(page)("@viz-js/viz").instance();
  const names = (await readdir(folder)).sort();
  const wanted = new Map();
  for (const name of names.filter((n) => n.endsWith(".dot"))) {
    wanted.set(name.replace(/dot$/, "svg"), draw(viz, await readFile(new URL(name, folder), "utf8"), name));
  }

  const size = [...wanted.values()].reduce((sum, svg) => sum + Buffer.byteLength(svg), 0);
  if (wanted.size === 0) throw new Error(`${fileURLToPath(folder)} has no source (*.dot)`);
  if (size > limit) throw new Error(`the pictures have ${size} bytes, ${limit} are allowed: draw less`);
  for (const name of names.filter((n) => n.endsWith(".svg") && !wanted.has(n))) {
    throw new Error(`docs/drawings/${name} has no source: add ${name.replace(/svg$/, "dot")} or remove it`);
  }

  for (const [name, svg] of wanted) {
    const there = names.includes(name) ? await readFile(new URL(name, folder), "utf8") : "";
    if (there === svg) continue;
    if (check) throw new Error(`docs/drawings/${name} is not what its source gives: run ${command}`);
    await writeFile(new URL(name, folder), svg);
    console.log(`drawing docs/drawings/${name}`);
  }
  console.log(`${wanted.size} drawings, ${size} bytes`);
}

run(process.argv.includes("-check")).catch((e) => {
  console.error(`drawings: ${e.message}`);
  process.exit(1);
});
