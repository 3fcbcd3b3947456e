package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// wget fetches the last operand, or posts to it what --post-data has, and prints the body. Options of wget and curl
// that say how long to wait and how much to tell are accepted.
func wget(ctx context.Context, c interp.HandlerContext, args []string) error {
	return fetch(ctx, c, args, true)
}

// curl takes an answer that says an error for an answer, unless it is told otherwise.
func curl(ctx context.Context, c interp.HandlerContext, args []string) error {
	return fetch(ctx, c, args, slices.Contains(args, "--fail") || slices.Contains(args, "-f"))
}

// fetch gets an address. strict makes a status from 400 on an error.
func fetch(ctx context.Context, c interp.HandlerContext, args []string, strict bool) error {
	// Options of both programs are in one list; what they take is passed over but for times.
	takesValue := []string{"-T", "-O", "-o", "--connect-timeout", "--max-time", "-m", "--timeout", "-X", "-w",
		"--interface", "-t", "--tries"}
	address := ""
	limit := 30 * time.Second
	method := http.MethodGet
	data := ""
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.HasPrefix(a, "--post-data="):
			method = http.MethodPost
			data = strings.TrimPrefix(a, "--post-data=")
		case slices.Contains(takesValue, a) && i+1 < len(args):
			if v, err := strconv.Atoi(args[i+1]); err == nil && a != "-O" && a != "-t" && a != "--tries" {
				limit = time.Duration(v) * time.Second
			}
			i++
		case !strings.HasPrefix(a, "-"):
			address = a
		}
	}

	// wget takes an address without a scheme as HTTP.
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(data))
	if err != nil {
		return err
	}

	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.DefaultClient
	// The certificate is not checked where the test says so.
	if slices.Contains(args, "-k") || slices.Contains(args, "--insecure") {
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(c.Stdout, resp.Body); err != nil {
		return err
	}

	if strict && resp.StatusCode >= 400 {
		return fmt.Errorf("server returned error: %s", resp.Status)
	}
	return nil
}

// nslookup asks as any program of the host does.
func nslookup(ctx context.Context, c interp.HandlerContext, args []string) error {
	_, operands := split(args)
	if len(operands) == 0 {
		return fmt.Errorf("a name is needed")
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, operands[0])
	fmt.Fprintf(c.Stdout, "Name:\t%s\n", operands[0])
	for _, a := range addresses {
		fmt.Fprintf(c.Stdout, "Address: %s\n", a)
	}
	return err
}
