// Command driver is a storage driver for the lab, on Linux and on Windows: internal/testkit/storagedriver as a
// program. It serves CSI and registers itself with the kubelet, as node-driver-registrar does for other drivers.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"porthole.dev/porthole/internal/testkit/storagedriver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func run() error {
	var o storagedriver.Options
	var socket, registration, endpoint string
	flag.StringVar(&o.Name, "name", "lab.storage.porthole.dev", "name of the driver")
	flag.StringVar(&o.NodeID, "node", "", "the driver's name for this node; none: serve the controller, for all nodes")
	flag.StringVar(&o.Dir, "dir", "", "folder of the volumes and of the driver's state")
	flag.StringVar(&socket, "socket", "", "where to serve CSI")
	flag.StringVar(&registration, "registration", "", "where the kubelet asks who this is")
	flag.StringVar(&endpoint, "endpoint", "", "the socket as the kubelet sees it (default: -socket)")
	flag.BoolVar(&o.Attach, "attach", false, "volumes are attached before a node may use them")
	flag.BoolVar(&o.SingleNodeModes, "single-node-modes", true, "tell one writer on a node from several")
	flag.BoolVar(&o.Make, "make", false,
		"make volumes that nobody made, when they are first used: for PersistentVolumes that an administrator wrote")
	flag.Int64Var(&o.MaxVolumes, "max-volumes", 0, "volumes that a node may have; 0: any number")
	topology := flag.Bool("topology", true, "volumes are those of one node")
	flag.Parse()

	if *topology && o.NodeID != "" {
		o.Topology = map[string]string{"topology." + o.Name + "/node": o.NodeID}
	}
	d, err := storagedriver.New(o)
	if err != nil {
		return err
	}
	stop, err := d.Serve(socket, registration, endpoint)
	if err != nil {
		return err
	}
	fmt.Println("driver", o.Name, "serves at", socket)

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	stop()
	return nil
}
