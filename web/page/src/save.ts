// Saves what is shown. An SVG carries the colours with it: the style sheet is not beside the file.
const properties = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "fill-opacity", "dominant-baseline"];

export function saveJSON(name: string, value: unknown) {
  download(name + ".json", new Blob([JSON.stringify(value, null, 1)], { type: "application/json" }));
}

export function saveSVG(name: string, svg: SVGSVGElement) {
  download(name + ".svg", new Blob([svgText(svg)], { type: "image/svg+xml" }));
}

export function svgText(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  to.forEach((element, i) => {
    const style = getComputedStyle(from[i]!);
    for (const p of properties) {
      const value = style.getPropertyValue(p);
      if (value && value !== "none" || p === "fill") element.setAttribute(p, value);
    }
    for (const a of ["class", "tabindex", "role", "data-key", "style"]) element.removeAttribute(a);
    if (element.tagName === "style") element.remove();
  });

  const box = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(Math.round(box.width)));
  copy.setAttribute("height", String(Math.round(box.height)));
  if (!copy.getAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${Math.round(box.width)} ${Math.round(box.height)}`);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function download(name: string, data: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
