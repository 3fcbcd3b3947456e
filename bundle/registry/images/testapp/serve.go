package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopSignal registers for signals when it is first asked for. All callers share one channel, and
// one signal stops one of them.
var stopSignal = sync.OnceValue(func() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
})

// waitForStop returns when the program is told to stop.
func waitForStop() { <-stopSignal() }

// serve answers until it is told to stop; then it finishes the requests that are open.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	httpAddr := flags.String("http", ":80", "HTTP address")
	tcpAddr := flags.String("tcp", "", "TCP echo address")
	udpAddr := flags.String("udp", "", "UDP echo address")
	if err := flags.Parse(args); err != nil {
		return err
	}

	// There is one slot for each goroutine that may fail, so that none waits.
	failed := make(chan error, 3)
	server := &http.Server{Addr: *httpAddr, Handler: routes(), ReadHeaderTimeout: 5 * time.Second}
	if *httpAddr != "" {
		l, err := net.Listen("tcp", *httpAddr)
		if err != nil {
			return err
		}
		go func() { failed <- server.Serve(l) }()
		fmt.Println("serving HTTP on", *httpAddr)
	}

	if *tcpAddr != "" {
		l, err := net.Listen("tcp", *tcpAddr)
		if err != nil {
			return err
		}
		go func() { failed <- echoTCP(l) }()
		fmt.Println("echoing TCP on", *tcpAddr)
	}

	var udpFailed <-chan error
	if *udpAddr != "" {
		var err error
		if udpFailed, err = udpListen(*udpAddr); err != nil {
			return err
		}
		fmt.Println("echoing UDP on", *udpAddr)
	}

	select {
	case err := <-failed:
		return err
	case err := <-udpFailed:
		return err
	case s := <-stopSignal():
		fmt.Println("stopping on", s)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Println("stopped")
	return nil
}

// routes are what tests ask: who answers (/), health, the environment, a file, and connections from
// here.
func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		host, _ := os.Hostname()
		fmt.Fprintf(w, "hostname=%s client=%s os=%s arch=%s\n", host, r.RemoteAddr, runtime.GOOS, runtime.GOARCH)
	})
	addFetchRoutes(mux)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		all := os.Environ()
		sort.Strings(all)
		fmt.Fprintln(w, strings.Join(all, "\n"))
	})

	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(r.URL.Query().Get("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer f.Close()
		io.Copy(w, f)
	})
	return mux
}

// echoTCP sends back what comes on each connection, until the listener fails.
func echoTCP(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}
