package httpserve

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestStartAndStop(t *testing.T) {
	l := listen(t)
	stop := Start(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }),
		func(err error) { t.Errorf("failed: %v", err) })
	resp, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "ok" {
		t.Errorf("got %q", body)
	}

	stop()
	stop()
	if conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
		conn.Close()
		t.Error("a stopped server still listens")
	}
}

// TestStopBeforeServing: a server that is stopped at once does not listen, whichever goroutine comes first.
func TestStopBeforeServing(t *testing.T) {
	for range 200 {
		l := listen(t)
		Start(l, http.NotFoundHandler(), nil)()
		if conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
			conn.Close()
			t.Fatal("a stopped server still listens")
		}
	}
}

func TestFailed(t *testing.T) {
	l := listen(t)
	failed := make(chan error, 1)
	stop := Start(l, http.NotFoundHandler(), func(err error) { failed <- err })
	defer stop()
	l.Close()
	if err := <-failed; err == nil {
		t.Error("no reason is given")
	}
}
