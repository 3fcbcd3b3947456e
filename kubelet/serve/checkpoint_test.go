package serve

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/kubelet/pod"
)

func TestCheckpoint(t *testing.T) {
	root := tempDir(t)
	var asked []CheckpointRequest
	srv := startServer(t, Options{Pods: func() []pod.View { return view("") }, RootDir: root,
		Auth: AuthOptions{Anonymous: true},
		Checkpoint: func(_ context.Context, r CheckpointRequest) error {
			asked = append(asked, r)
			if r.Timeout == 7*time.Second {
				return errors.New("CRIU is not there")
			}
			return os.WriteFile(r.Location, nil, 0o600)
		}})
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(root, checkpointsDir)) })

	for _, c := range []struct {
		method, path string
		code         int
		body         string
		calls        int
	}{
		{"POST", "/checkpoint/ns/other/c", 404, `^pod does not exist\n$`, 0},
		{"POST", "/checkpoint/ns/p/other", 404, `^container other does not exist\n$`, 0},
		{"POST", "/checkpoint/ns/p/c?timeout=soon", 404, `^cannot parse value of timeout parameter\n$`, 0},
		{"POST", "/checkpoint/ns/p/c?timeout=-1", 500,
			`^checkpointing of ns/p/c failed \(CheckpointContainer requires the timeout value to be > 0\)\n$`, 0},
		{"POST", "/checkpoint/ns/p/new", 500, `^checkpointing of ns/p/new failed \(container new not found\)\n$`, 0},
		{"GET", "/checkpoint/ns/p/c", 405, ``, 0},
		{"POST", "/checkpoint/ns/p/c?timeout=7", 500, `^checkpointing of ns/p/c failed \(CRIU is not there\)\n$`, 1},
		{"POST", "/checkpoint/ns/p/c", 200,
			`^{"items":\["` + regexp.QuoteMeta(filepath.Join(root, "checkpoints", "checkpoint-p_ns-c-")) +
				`20[0-9T:Z+-]+\.tar"\]}$`, 1},
	} {
		asked = nil
		code, _, body := ask(t, c.method, srv.URL+c.path, "")
		body = strings.ReplaceAll(body, `\\`, `\`) // JSON, with a path of Windows
		if code != c.code || !regexp.MustCompile(c.body).MatchString(body) || len(asked) != c.calls {
			t.Errorf("%s %s: %d %q, %d calls", c.method, c.path, code, body, len(asked))
		}
	}

	if len(asked) != 1 || asked[0].ContainerID != "cid" || asked[0].Timeout != 0 {
		t.Errorf("asked for %+v", asked)
	}
	if info, err := os.Stat(filepath.Join(root, checkpointsDir)); err != nil ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of checkpoints: %v, %v", info, err)
	}

	bare := startServer(t, Options{Pods: func() []pod.View { return view("") }, Auth: AuthOptions{Anonymous: true}})
	if code, _, _ := ask(t, http.MethodPost, bare.URL+"/checkpoint/ns/p/c", ""); code != 500 {
		t.Errorf("without a runtime: %d", code)
	}
}
