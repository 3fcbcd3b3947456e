package matrix

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/test/proxy/lab"
)

// question asks one address n times, each time over a new connection or from a new port.
type question struct {
	ID    int
	Proto string // tcp, udp or http
	Addr  string
	N     int
	// Patience is how long to wait for each connection and answer.
	Patience time.Duration
}

// reply counts what came back: "<server> <address that it saw>", refused, timeout or another error's text.
type reply struct {
	ID      int
	Answers map[string]int
}

const (
	// A machine with other work answers late. Most questions that get no answer never will, so only what is asked again
	// because the nodes differ is worth the longer wait.
	patience     = 900 * time.Millisecond
	muchPatience = 2500 * time.Millisecond
	// atOnce is how many addresses a prober asks at once. Most of them wait for an answer that never comes.
	atOnce = 200

	childVariable = "PORTHOLE_MATRIX_PROBER"
)

// TestMain lets this program be the prober of a namespace: a process all of whose threads are in there, so that asking
// needs no change of namespace.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := probe(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "prober:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// probe answers questions until its input ends.
func probe(in io.Reader, out io.Writer) error {
	var write sync.Mutex
	var work sync.WaitGroup
	defer work.Wait()
	free := make(chan struct{}, atOnce)
	encoder := json.NewEncoder(out)
	for decoder := json.NewDecoder(in); ; {
		var q question
		if err := decoder.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			r := reply{ID: q.ID, Answers: q.ask()}
			write.Lock()
			defer write.Unlock()
			_ = encoder.Encode(r) // who asked is gone then, and so is the input
		})
	}
}

// ask repeats the question. After two timeouts nothing else is expected.
func (q question) ask() map[string]int {
	answers := map[string]int{}
	for range q.N {
		answers[q.once()]++
		if answers[timeout] == 2 || answers[refused]+answers[unreachable] == 3 {
			break
		}
	}
	return answers
}

func (q question) once() string {
	if q.Proto == "http" {
		return askHealth(q.Addr, q.Patience)
	}
	conn, err := net.DialTimeout(q.Proto+"4", q.Addr, q.Patience)
	if err != nil {
		return worded(err)
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // thousands of connections must not fill the table of those that wait
	}
	_ = conn.SetDeadline(time.Now().Add(q.Patience))
	if _, err := conn.Write([]byte("?\n")); err != nil {
		return worded(err)
	}
	r, err := lab.ReadReply(bufio.NewReader(conn))
	if err != nil {
		return worded(err)
	}
	return r.Name + " " + r.Client.Addr().String()
}

func worded(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EPERM):
		return unreachable
	case errors.As(err, &ne) && ne.Timeout():
		return timeout
	}
	return "error: " + err.Error()
}

// askHealth returns the status and the number of local endpoints of a health check node port.
func askHealth(addr string, patience time.Duration) string {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + addr + "/")
	if err != nil {
		return worded(err)
	}
	defer answer.Body.Close()
	var body struct {
		Service             struct{ Namespace, Name string }
		LocalEndpoints      *int
		ServiceProxyHealthy *bool
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.LocalEndpoints == nil ||
		body.ServiceProxyHealthy == nil {
		return fmt.Sprintf("%d without upstream's fields", answer.StatusCode)
	}
	return fmt.Sprintf("%d %s/%s has %d, weight %s", answer.StatusCode, body.Service.Namespace, body.Service.Name,
		*body.LocalEndpoints,
		answer.Header.Get("X-Load-Balancing-Endpoint-Weight"))
}

// prober is the parent's end of a prober.
type prober struct {
	writing sync.Mutex // apart from mu: a prober that is busy takes no question, but its replies must be read
	in      *json.Encoder

	mu      sync.Mutex
	next    int
	waiting map[int]chan map[string]int
}

// startProber starts one in the namespace at path; the test's end ends it.
func startProber(s *lab.Stage, path string) *prober {
	s.Helper()
	self, err := os.Executable()
	s.Must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	s.Must(err)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(platform.StartInNetns(path, cmd))

	p := &prober{in: json.NewEncoder(in), waiting: map[int]chan map[string]int{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	t := s.T
	t.Cleanup(func() {
		_ = in.Close()
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("prober in %s: %v", path, err)
		}
	})

	return p
}

// read hands out replies; at the end whoever still waits gets nothing.
func (p *prober) read(out io.Reader) {
	for decoder := json.NewDecoder(out); ; {
		var r reply
		err := decoder.Decode(&r)
		p.mu.Lock()
		if err != nil {
			for id := range p.waiting {
				close(p.waiting[id])
			}
			clear(p.waiting)
			p.mu.Unlock()
			return
		}
		p.waiting[r.ID] <- r.Answers
		delete(p.waiting, r.ID)
		p.mu.Unlock()
	}
}

// ask puts a question and returns where its answers will be.
func (p *prober) ask(q question) <-chan map[string]int {
	if q.Patience == 0 {
		q.Patience = patience
	}
	answer := make(chan map[string]int, 1)
	p.mu.Lock()
	p.next++
	q.ID = p.next
	p.waiting[q.ID] = answer
	p.mu.Unlock()
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.in.Encode(q) // if the prober is gone, read closes the channel
	return answer
}
