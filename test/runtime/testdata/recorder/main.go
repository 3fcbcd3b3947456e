// Command recorder is a CNI plugin without effect: it answers an ADD with a fixed address, and writes down what it was
// called with.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	conf, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line := fmt.Sprintf("%s %s\n", os.Getenv("CNI_COMMAND"), conf)
	log, err := os.OpenFile(`C:\cni-calls.log`, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = log.WriteString(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("CNI_COMMAND") == "ADD" {
		fmt.Println(`{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.244.9.3/24","gateway":"10.244.9.1"}]}`)
	}
}
