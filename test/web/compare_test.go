package web

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

const (
	// shrunk is how much smaller the kept pictures are: what differs between machines, such as the edges of letters,
	// is gone then.
	shrunk = 4
	// colourful is from which difference of a colour, of 255, a point of a shrunk picture is another one, and
	// mostOther which share of points may be: ages of objects ("12 s") and the place of a line's end are other ones
	// each time.
	colourful = 40
	mostOther = 0.02
	// mostKept bounds all kept pictures.
	mostKept = 300 << 10
)

// looksAsKept compares a picture with the one that is kept under its name, in small. With -update the picture is kept.
func looksAsKept(t *testing.T, name, file string) {
	t.Helper()
	now := shrink(readPNG(t, file))
	kept := filepath.Join("testdata", name+".png")
	if *update {
		var data bytes.Buffer
		encoder := png.Encoder{CompressionLevel: png.BestCompression}
		if err := encoder.Encode(&data, now); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kept, data.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if share := different(now, readPNG(t, kept)); share > mostOther {
		t.Errorf(
			"%s: %.1f %% of the picture is not as in %s, at most %.0f: look at both, and keep the new one with -args -update if it is right", file, 100*share, kept, 100*mostOther)
	}
}

func readPNG(t *testing.T, file string) image.Image {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return p
}

// shrink returns a picture in which each point is the mean of shrunk × shrunk points. It has few colours, so that it
// is a small file.
func shrink(p image.Image) image.Image {
	size := p.Bounds().Size().Div(shrunk)
	small := image.NewRGBA(image.Rect(0, 0, size.X, size.Y))
	for y := range size.Y {
		for x := range size.X {
			var sum [3]uint32
			for i := range shrunk * shrunk {
				r, g, b, _ := p.At(p.Bounds().Min.X+x*shrunk+i%shrunk, p.Bounds().Min.Y+y*shrunk+i/shrunk).RGBA()
				sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+b>>8
			}
			mean := func(n uint32) uint8 { return uint8(n/(shrunk*shrunk)) &^ 7 }
			small.SetRGBA(x, y, color.RGBA{mean(sum[0]), mean(sum[1]), mean(sum[2]), 255})
		}
	}
	return small
}

// different returns the share of points that are not the same in both pictures; 1 if their sizes differ.
func different(a, b image.Image) float64 {
	size := a.Bounds().Size()
	if size != b.Bounds().Size() {
		return 1
	}
	others := 0
	for y := range size.Y {
		for x := range size.X {
			ar, ag, ab, _ := a.At(a.Bounds().Min.X+x, a.Bounds().Min.Y+y).RGBA()
			br, bg, bb, _ := b.At(b.Bounds().Min.X+x, b.Bounds().Min.Y+y).RGBA()
			if apart(ar, br) > colourful || apart(ag, bg) > colourful || apart(ab, bb) > colourful {
				others++
			}
		}
	}
	return float64(others) / float64(size.X*size.Y)
}

func apart(a, b uint32) uint32 { return max(a, b)>>8 - min(a, b)>>8 }

// TestDifferent: a card in another place, another colour and another size are seen; a letter is not.
func TestDifferent(t *testing.T) {
	draw := func(card image.Rectangle, fill color.Color, size image.Point) image.Image {
		p := image.NewRGBA(image.Rectangle{Max: size})
		draw.Draw(p, p.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
		draw.Draw(p, card, image.NewUniform(fill), image.Point{}, draw.Src)
		return shrink(p)
	}
	size, card := image.Pt(1280, 800), image.Rect(100, 100, 392, 300)
	kept := draw(card, color.Black, size)
	for name, c := range map[string]struct {
		picture image.Image
		other   bool
	}{
		"the same":        {draw(card, color.Black, size), false},
		"a letter":        {draw(card.Add(image.Pt(1, 1)), color.Black, size), false},
		"another place":   {draw(card.Add(image.Pt(60, 0)), color.Black, size), true},
		"another colour":  {draw(card, color.RGBA{200, 0, 0, 255}, size), true},
		"another size":    {draw(card, color.Black, image.Pt(1284, 800)), true},
		"it is not there": {draw(image.Rectangle{}, color.Black, size), true},
	} {
		if share := different(c.picture, kept); (share > mostOther) != c.other {
			t.Errorf("%s: %.3f of the points are other ones", name, share)
		}
	}
}

// TestKeptPictures are small enough for the repository.
func TestKeptPictures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.png")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	var total int64
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > mostKept {
		t.Errorf("the pictures have %d kB, at most %d", total>>10, mostKept>>10)
	}
}
