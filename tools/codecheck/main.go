// Command codecheck reads the Go files of this repository and reports code that is hard to read: long functions
// without a paragraph, wide types and interfaces, and doc comments that name a parameter which does not exist; and
// files that ARCHITECTURE.md names and that do not exist. With -measure it prints the figures of the whole tree in
// place of the problems; with -pairs, the files of one folder that use each other.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	measure := flag.Bool("measure", false, "print the figures of the tree")
	count := flag.Bool("count", false, "print how many problems each folder has, and succeed")
	without := flag.String("without", "", "folders whose problems do not count, separated by commas")
	pairs := flag.String("pairs", "",
		"print the files of this folder that use each other in both directions, and what they use")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"usage: codecheck [-measure | -count | -pairs FOLDER | -without FOLDERS] [ROOT]")
		flag.PrintDefaults()
	}
	flag.Parse()

	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}

	ok, err := run(os.Stdout, root, options{*measure, *count, *pairs, strings.Split(*without, ",")})
	if err != nil {
		fmt.Fprintln(os.Stderr, "codecheck:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// options are what the command line chooses.
type options struct {
	measure bool
	count   bool
	pairs   string   // the folder whose files are looked at; "": none
	without []string // folders whose problems do not count
}

// run checks or measures the tree below root. It reports whether no problem was found.
func run(out io.Writer, root string, o options) (ok bool, err error) {
	if o.pairs != "" {
		return true, printPairs(out, root, o.pairs)
	}
	tree, err := load(root)
	if err != nil {
		return false, err
	}
	if o.measure {
		return true, printMeasures(out, tree)
	}

	named, err := documents(root)
	if err != nil {
		return false, err
	}
	found := slices.DeleteFunc(append(check(tree), named...), func(p problem) bool {
		return slices.ContainsFunc(o.without,
			func(dir string) bool { return dir != "" && strings.HasPrefix(p.file, dir+"/") })
	})
	if o.count {
		printCounts(out, found)
		return true, nil
	}
	for _, p := range found {
		fmt.Fprintln(out, p)
	}
	return len(found) == 0, nil
}
