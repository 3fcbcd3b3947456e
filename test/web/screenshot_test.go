package web

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/browser"
)

var update = flag.Bool("update", false, "make the pictures of the documents again")

// picture is the one in README.md.
const picture = "../../docs/images/page.png"

// TestPicture makes the picture of the README with -update: eight nodes, of which one lacks a route and two have pods
// that wait. Without, it checks that the drawing can still be made, and that the file is a picture that is not too
// large for a README.
func TestPicture(t *testing.T) {
	b := browser.New(t)
	m := newMade(8, 76)
	m.routes["win04"] = routesOf("win04", m.nodes, "win02")
	s := start(t, m)
	entered(t, b, s, browser.Args{Tab: "a", Width: 1360, Height: 850})
	s.setReady(11, false)
	s.setReady(30, false)
	s.collector.Changed()
	b.Wait("a",
		"document.querySelectorAll('g.pod.s-making').length === 2 && document.querySelector('path.route.s-wrong')",
		20*time.Second)

	file := artefacts(t, "readme")
	b.Do("screenshot", browser.Args{Tab: "a", Text: file}, nil)
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(picture, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	kept, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) > 300<<10 {
		t.Errorf("the picture has %d kB, at most 300", len(kept)>>10)
	}
	for name, data := range map[string][]byte{"made now": made, "of the README": kept} {
		p, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("the picture %s: %v", name, err)
		}
		if size := p.Bounds().Size(); size.X != 1360 || size.Y != 850 {
			t.Errorf("the picture %s is %v", name, size)
		}
	}
	if share := different(shrink(readPNG(t, file)), shrink(readPNG(t, picture))); share > mostOther {
		t.Errorf(
			"%.1f %% of the README's picture is not as the page is now, at most %.0f: -args -update makes it again",
			100*share, 100*mostOther)
	}
}

// TestSaved: a view is saved as a drawing that stands for itself, with its colours, and as data.
func TestSaved(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(3, 12))
	entered(t, b, s, browser.Args{Tab: "a"})
	save := func(button string) (name, text string) {
		b.Do("click", browser.Args{Tab: "a", Text: "summary:has-text('Save')"}, nil)
		var file struct{ Name, Text string }
		b.Do("download", browser.Args{Tab: "a", Text: "button:has-text('" + button + "')"}, &file)
		return file.Name, file.Text
	}

	name, svg := save("Drawing as SVG")
	for _, want := range []string{"<svg", "win01", "cart-0000", "fill=\"rgb("} {
		if name != "porthole-map.svg" || !bytes.Contains([]byte(svg), []byte(want)) {
			t.Errorf("%s has no %q", name, want)
		}
	}
	name, data := save("Data as JSON")
	for _, want := range []string{"\"cluster\"", "\"node/win01\"", "\"pod/shop-c/cart-0000\""} {
		if name != "porthole-map.json" || !bytes.Contains([]byte(data), []byte(want)) {
			t.Errorf("%s has no %q", name, want)
		}
	}
	quiet(t, b, "a")
}

// TestKeyboard: the map, the search and the views work without a mouse, and the place is in the address.
func TestKeyboard(t *testing.T) {
	b := browser.New(t)
	s := start(t, newMade(3, 12))
	entered(t, b, s, browser.Args{Tab: "a"})
	press := func(keys ...string) {
		for _, k := range keys {
			b.Do("press", browser.Args{Tab: "a", Text: k}, nil)
		}
	}

	b.Do("evaluate", browser.Args{Tab: "a", Text: "document.querySelector('g.card').focus()"}, nil)
	press("ArrowRight", "Enter")
	b.Wait("a",
		"location.hash.includes('sel=node%2Fwin01') && document.querySelector('.details h2').textContent.includes('win01')", 10*time.Second)
	press("/")
	press("c", "a", "r", "t")
	b.Wait("a", "document.querySelectorAll('g.pod.hidden').length === 10 && location.hash.includes('find=cart')",
		10*time.Second)
	b.Do("evaluate", browser.Args{Tab: "a", Text: "document.activeElement.blur()"}, nil)
	press("2")
	b.Wait("a", "location.hash.startsWith('#/services')", 10*time.Second)
	quiet(t, b, "a")
}
