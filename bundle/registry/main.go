// Command registry makes the images that a local cluster needs and serves them, as an OCI registry that keeps
// everything in one folder and also takes pushes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = `registry build --out DIR [--programs DIR]               make our images (again: changes nothing)
registry serve --listen ADDR --dir DIR [--netns PATH] [--push-login FILE]   serve them until interrupted`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("a command is needed\n" + usage)
	}

	// Each command has flags of its own.
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "build":
		self, err := os.Executable()
		if err != nil {
			return err
		}
		out := flags.String("out", "", "folder to keep the images in")
		programs := flags.String("programs", filepath.Dir(self), "folder with coredns and images/{linux,windows}/…")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *out == "" {
			return errors.New("build needs --out")
		}
		return buildAll(store{*out}, *programs)
	case "serve":
		listen := flags.String("listen", "10.99.0.1:5000", "address to listen on")
		dir := flags.String("dir", "", "folder to keep images in")
		netns := flags.String("netns", "", "network namespace to listen in (a path; empty: the caller's)")
		login := flags.String("push-login", "", "file with NAME:PASSWORD of who may push (empty: nobody may)")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *dir == "" {
			return errors.New("serve needs --dir")
		}
		h, err := newHandler(store{*dir}, *login)
		if err != nil {
			return err
		}
		return serve(ctx, *listen, *netns, h)
	}
	return fmt.Errorf("no command %q\n%s", args[0], usage)
}

// serve serves until ctx ends, and then gives requests under way 3 s. The listener is opened inside the network
// namespace; the server itself needs to be in none.
func serve(ctx context.Context, address, netns string, h handler) error {
	var listener net.Listener
	err := inNetns(netns, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return err
	}

	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	fmt.Println("serving", h.store.dir, "on", listener.Addr())
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}

	bye, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return server.Shutdown(bye)
}
