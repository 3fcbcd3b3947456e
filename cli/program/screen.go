package program

import (
	"io"
	"os"
)

// ClearScreen returns what a terminal needs to show the next text in place of the last one; for files and pipes an
// empty line.
func ClearScreen(out io.Writer) string {
	if f, is := out.(*os.File); is {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			return "\x1b[H\x1b[2J" // ECMA-48: cursor to the corner, erase all
		}
	}
	return "\n"
}
