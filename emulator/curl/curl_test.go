package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCurl asks a server in the ways that probes and scripts do, and compares output and exit code.
func TestCurl(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", r.Method, r.URL) })
	mux.HandleFunc("/missing",
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/there", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round", http.StatusFound)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s|%s|%s|%s|%s:%s|%s", r.Method, body, r.Header.Get("X-A"), r.Host, user, password,
			r.Header.Get("Content-Type"))
	})
	release := make(chan struct{})
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { <-release })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	server, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer server.Close()
	defer secure.Close()
	defer close(release)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("a\r\nb"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		line, out string
		code      int
	}{
		{"-s S/x?a=b", "GET /x?a=b", 0},
		{"-fsS S/missing", "", 22},
		{"-s S/missing", "no\n", 0},
		{"-sL S/moved", "GET /there", 0},
		{"-s -o D -w %{http_code} S/moved", "302", 0},
		{"-sL S/round", "", 47},
		{"-s -X PUT -H X-A:1 -H Host:h -d one --data two S/echo", "PUT|one&two|1|h|:|application/x-www-form-urlencoded",
			0},
		{"-s -u me:pass -d @F S/echo", "POST|ab||A|me:pass|application/x-www-form-urlencoded", 0},
		{"-s --json {} S/echo", "POST|{}||A|:|application/json", 0},
		{"-sG -d a=1 S/q", "GET /q?a=1", 0},
		{"-sI -o D -w %{http_code} S/x", "200", 0},
		{"-s -m 0.2 S/slow", "", 28},
		{"-s --max-time 0.2 S/slow", "", 28},
		{"-s S/empty", "", 52},
		{"-s http://C/", "", 7},
		{"-s http://name.invalid/", "", 6},
		{"-s ftp://127.0.0.1/", "", 1},
		{"-s http://", "", 3},
		{"-s T/x", "", 60},
		{"-sk T/x", "GET /x", 0},
		{"-s", "", 2},
		{"-s -d", "", 2},
		{"--what S/x", "", 2},
		{"-sZ S/x", "", 2},
		{"-s -m x S/x", "", 2},
		{"-s -d @/no/such/file S/x", "", 26},
		{"-s -o /no/such/folder/file S/x", "", 23},
		{"-s --cacert /no/such/file T/x", "", 77},
	} {
		fill := strings.NewReplacer("S/", server.URL+"/", "T/", secure.URL+"/", "C/", closed.Addr().String()+"/", "|A|",
			"|"+server.Listener.Addr().String()+"|", "@F", "@"+body)
		args := strings.Fields(fill.Replace(c.line))
		for i, a := range args {
			if a == "D" {
				args[i] = os.DevNull
			}
		}
		var out, errs bytes.Buffer
		begin := time.Now()
		o, err := parse(args)
		if err == nil {
			err = o.run(&out, &errs)
		}
		if code := codeOf(err); code != c.code || out.String() != fill.Replace(c.out) {
			t.Errorf("%s: code %d, %q, %v; want %d, %q", c.line, code, &out, err, c.code, c.out)
		}
		if c.code == codeTimeout && time.Since(begin) > 20*time.Second {
			t.Errorf("%s took %v", c.line, time.Since(begin))
		}
	}
}

// TestInclude: -i and -v show what was sent and answered.
func TestInclude(t *testing.T) {
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "body") }))
	defer server.Close()
	o, err := parse([]string{"-siv", server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := o.run(&out, &errs); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(out.String(), "\r\n\r\nbody") {
		t.Errorf("-i: %q", &out)
	}
	if !strings.Contains(errs.String(), "> GET / HTTP/1.1\n") ||
		!strings.Contains(errs.String(), "< HTTP/1.1 200 OK\n") {
		t.Errorf("-v: %q", &errs)
	}
}
