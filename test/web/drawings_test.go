package web

import (
	"fmt"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/testkit/browser"
)

// illegible is what somebody cannot read in a drawing that is open in a tab: text that leaves its box, meets another
// text or box, or has an arrow through it, and text with less contrast than WCAG 2.1 asks for (1.4.3: 4.5 to 1). Two
// pixels of a line's height may be shared: no letter is in them.
const illegible = `(() => {
  const found = [], texts = [...document.querySelectorAll("svg text")];
  const place = (e) => e.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = document.querySelector(".ground");
  for (const t of texts) {
    const shape = t.parentNode.matches(".edge") ? ground : t.parentNode.querySelector("path, polygon");
    const [a, b] = [light(getComputedStyle(t).fill), light(getComputedStyle(shape).fill)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (!(contrast >= 4.5)) found.push("contrast " + contrast.toFixed(1) + ": " + t.textContent);
    const picture = place(ground), at = place(t);
    if (at.left < picture.left || at.right > picture.right) found.push("outside the picture: " + t.textContent);
  }
  for (const node of document.querySelectorAll("g.node")) {
    const box = place(node.querySelector("path, polygon"));
    for (const t of texts) {
      const at = place(t);
      if (node.contains(t)) { if (at.left < box.left || at.right > box.right) found.push("wider than its box: " + t.textContent); }
      else if (meet(at, box)) found.push("over a box: " + t.textContent);
    }
  }
  texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
    if (a.parentNode !== b.parentNode && meet(place(a), place(b))) found.push("over each other: " + a.textContent + ", " + b.textContent);
  }));
  for (const arrow of document.querySelectorAll("g.edge path")) {
    const matrix = arrow.getScreenCTM(), length = arrow.getTotalLength();
    for (const t of texts) {
      const at = place(t);
      for (let d = 0; d <= length; d += 2) {
        const p = arrow.getPointAtLength(d).matrixTransform(matrix);
        if (p.x > at.left && p.x < at.right && p.y > at.top + 2 && p.y < at.bottom - 2) { found.push("an arrow through: " + t.textContent); break; }
      }
    }
  }
  return { texts: texts.length, found };
})()`

// TestDrawings: the drawings of ARCHITECTURE.md can be read in light and dark, with the fonts of this machine.
// Debian's DejaVu Sans is the widest that a reader without Helvetica has.
func TestDrawings(t *testing.T) {
	b := browser.New(t)
	files, err := filepath.Glob(filepath.Join(browser.Page(t), "..", "..", "docs", "drawings", "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no drawing in docs/drawings (%v): make drawings makes them", err)
	}
	for _, file := range files {
		for _, dark := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,dark=%t", filepath.Base(file), dark), func(t *testing.T) {
				b.Open(browser.Args{Tab: "a", URL: "file://" + file, Width: 1200, Height: 1200, Dark: dark})
				var seen struct {
					Texts int
					Found []string
				}
				b.Do("evaluate", browser.Args{Tab: "a", Text: illegible}, &seen)
				if seen.Texts == 0 {
					t.Error("the drawing has no text")
				}
				for _, problem := range seen.Found {
					t.Errorf("%s (change the drawing's source, *.dot, and run make drawings)", problem)
				}
			})
		}
	}
}
