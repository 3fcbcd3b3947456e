// Command sandboxes prints, three times, the ids of the sandboxes that the container runtime at an endpoint knows,
// each time over a connection of its own, as the sweep of a node does.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"porthole.dev/porthole/kubelet/runtime"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 3 {
		ids, err := runtime.SandboxIDs(ctx, os.Args[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(len(ids), ids)
	}
}
