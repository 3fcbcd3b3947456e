// Command codecheck reads the Go files of this repository and reports code that is hard to read: long functions without a
// paragraph, wide types and interfaces, and doc comments that name a parameter which does not exist. With -measure it
// prints the figures of the whole tree in place of the problems.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	measure := flag.Bool("measure", false, "print the figures of the tree")
	count := flag.Bool("count", false, "print how many problems each folder has, and succeed")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: codecheck [-measure | -count] [FOLDER]")
		flag.PrintDefaults()
	}
	flag.Parse()

	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}

	ok, err := run(os.Stdout, root, *measure, *count)
	if err != nil {
		fmt.Fprintln(os.Stderr, "codecheck:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run checks or measures the tree below root. It reports whether no problem was found.
func run(out io.Writer, root string, measure, count bool) (ok bool, err error) {
	tree, err := load(root)
	if err != nil {
		return false, err
	}
	if measure {
		return true, printMeasures(out, tree)
	}

	found := check(tree)
	if count {
		printCounts(out, found)
		return true, nil
	}
	for _, p := range found {
		fmt.Fprintln(out, p)
	}
	return len(found) == 0, nil
}
