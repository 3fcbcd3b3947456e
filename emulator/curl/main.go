// Command curl is the curl.exe of emulated Windows hosts, which Windows has since build 17063 and Wine has not: what
// probes, hooks and scripts use of it for http and https. Its exit codes and messages are curl's.
package main

import (
	"fmt"
	"os"
)

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.run(os.Stdout, os.Stderr)
	}
	code := codeOf(err)
	if err != nil && (!o.silent || o.showErrors) {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
