package lab

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	testimages "porthole.dev/porthole/test/images"

	"porthole.dev/porthole/internal/testkit/wait"
)

// database is PostgreSQL with its data on a claim. It is made by the first container, which finds it there the next time.
const database = `
apiVersion: v1
kind: Pod
metadata: {name: postgres, labels: {app: postgres}}
spec:
  nodeName: win01
  initContainers:
  - name: initdb
    image: programs/postgres:1
    command: [cmd, /c, 'if not exist C:\data\PG_VERSION (C:\pg\bin\initdb.exe -D C:\data -U postgres -A trust && echo host all all all trust>>C:\data\pg_hba.conf)']
    volumeMounts: [{name: data, mountPath: 'C:\data'}]
  containers:
  - name: postgres
    image: programs/postgres:1
    volumeMounts: [{name: data, mountPath: 'C:\data'}]
    readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 1}
  volumes: [{name: data, persistentVolumeClaim: {claimName: postgres}}]
`

// databaseStays is what outlives the pod.
const databaseStays = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: postgres}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  claimRef: {namespace: default, name: postgres}
  hostPath: {path: 'C:\postgres', type: DirectoryOrCreate}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: postgres}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeName: postgres
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Service
metadata: {name: postgres}
spec:
  selector: {app: postgres}
  ports: [{port: 5432}]
`

// testPostgres makes a database, inserts 1,000 rows through a Service, and finds them after the pod is another one.
func testPostgres(t *testing.T) {
	p := npmPackage{"@embedded-postgres/windows-x64", "18.4.0-beta.17", "21fc0b0fbf2d7aebbf0472cdab2f6741b39b8156a477daef7dbc52becdb7c6ba"}
	p.needsRoot(t)
	folder := filepath.Join(p.unpacked(t), "native")
	push(t, layers{"program": func(l *testimages.Layer) error { return addFolder(l, "Files/pg", folder) }}, testimages.Image{
		Repository: "programs/postgres", Windows: &testimages.Variant{
			Layers: []string{"program"}, User: "ContainerUser", Entrypoint: []string{`C:\pg\bin\postgres.exe`}, Args: []string{"-D", `C:\data`, "-h", "*"},
		},
	})
	apply(t, databaseStays)

	address := strings.TrimSpace(kubectl(t, "get", "service", "postgres", "-o", "jsonpath={.spec.clusterIP}"))
	apply(t, database)
	waitPod(t, "postgres", 2*podWait, isReady)
	c := connect(t, address)
	c.query("create table things (n int primary key, what text)")
	began := time.Now()
	for n := range 1000 {
		c.query(fmt.Sprintf("insert into things values (%d, 'thing %d')", n, n))
	}
	t.Logf("1,000 inserts in %v", time.Since(began).Round(time.Millisecond))
	c.conn.Close()
	ends(t, "postgres")

	apply(t, database)
	waitPod(t, "postgres", podWait, isReady)
	c = connect(t, address)
	defer c.conn.Close()
	if got := c.query("select count(*) || ' ' || sum(n) || ' ' || max(what) from things"); got != "1000 499500 thing 999" {
		t.Errorf("after a restart the table has %q", got)
	}
	if logs := kubectl(t, "logs", "postgres"); strings.Contains(logs, "was not properly shut down") {
		t.Errorf("the first one did not end by itself:\n%s", logs)
	}
}

// addFolder adds a folder of this machine with all that is in it to a layer of a Windows image.
func addFolder(l *testimages.Layer, as, folder string) error {
	l.Dir("Files", 0o755)
	l.Dir("Hives", 0o755)
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := as + strings.TrimPrefix(path, folder)
		if d.IsDir() {
			l.Dir(name, 0o755)
			return nil
		}
		return l.File(name, path, 0o755)
	})
}

// pgConn speaks as much of PostgreSQL's protocol (version 3.0, chapter "Frontend/Backend Protocol") as queries without parameters need.
type pgConn struct {
	t    *testing.T
	conn net.Conn
}

// connect connects from within lin01 as the user postgres, who is trusted.
func connect(t *testing.T, address string) *pgConn {
	t.Helper()
	c := &pgConn{t: t}
	wait.NoError(t, 30*time.Second, "a connection to PostgreSQL", func() (err error) {
		c.conn, err = dialIn("porthole-lin01", net.JoinHostPort(address, strconv.Itoa(5432)))
		return err
	})
	if err := c.conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	const version = 3 << 16
	body := binary.BigEndian.AppendUint32(nil, version)
	c.send(append(body, "user\x00postgres\x00\x00"...))
	c.untilReady()
	return c
}

// send sends a message behind its length.
func (c *pgConn) send(body []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)); err != nil {
		c.t.Fatal(err)
	}
}

// query returns the last column of the last row.
func (c *pgConn) query(text string) string {
	c.t.Helper()
	if _, err := c.conn.Write([]byte("Q")); err != nil {
		c.t.Fatal(err)
	}
	c.send(append([]byte(text), 0))
	return c.untilReady()
}

// untilReady reads answers until the server waits for a query.
func (c *pgConn) untilReady() (column string) {
	c.t.Helper()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c.conn, head); err != nil {
			c.t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(c.conn, body); err != nil {
			c.t.Fatal(err)
		}

		switch head[0] {
		case 'E':
			c.t.Fatalf("PostgreSQL answers %q", body)
		case 'D': // a row: the number of its columns, and each behind its length
			column = string(body[6:])
		case 'Z':
			return column
		}
	}
}

// needsRoot skips the test on Wine 8.0, which lacks something that the program needs.
func (p npmPackage) needsRoot(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../bin/root"); err != nil {
		t.Skip("Wine 8.0 cannot run it: `make root`")
	}
}
