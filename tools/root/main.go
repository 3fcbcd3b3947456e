// Command root makes a folder with the programs and libraries of Debian that emulated Windows hosts run with: Wine, and
// what beside it hosts start. Nothing is installed: internal/ownroot shows the folder to a program in the place of
// /usr.
//
//	root make DIR PROGRAM...    # the folder of root.lock, with programs of ours in its usr/sbin, as DIR/CHECKSUM; prints that path.
//	                            # What is there already is left alone
//	root lock FILE              # root.lock anew, from the newest packages of the suite
//
// Packages come from the mirror that the machine's apt uses, or from the one that PORTHOLE_DEBIAN names, as
// http://HOST/debian.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/signal"
)

//go:embed root.lock
var rootLock string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "root: %v\n", err)
		os.Exit(1)
	}
}

// run makes a root from the lock, or writes a new lock.
func run(ctx context.Context, args []string) error {
	if len(args) < 2 || args[0] != "make" && (args[0] != "lock" || len(args) > 2) {
		return fmt.Errorf("usage: root make DIR PROGRAM..., or root lock FILE")
	}
	if args[0] == "lock" {
		mirror, err := findMirror(ctx)
		if err != nil {
			return err
		}
		list, err := renew(ctx, mirror)
		if err != nil {
			return err
		}
		return os.WriteFile(args[1], []byte(formatLock(list)), 0o644)
	}

	list, err := parseLock(rootLock)
	if err != nil {
		return err
	}
	dir, err := makeRoot(ctx, options{
		dir: args[1], lock: rootLock, list: list, programs: args[2:], mirror: findMirror, newest: renew,
	})
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
