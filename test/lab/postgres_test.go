package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	testimages "porthole.dev/porthole/test/images"
)

// database has the folder of its data on a claim, and is made by the first pod. ContainerUser runs it: PostgreSQL
// refuses to run with an administrator's rights.
const database = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: database}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: {namespace: default, name: data-database-0}
  hostPath: {path: 'C:\database', type: DirectoryOrCreate}
---
apiVersion: v1
kind: Service
metadata: {name: database}
spec: {selector: {app: database}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: database}
spec:
  replicas: 1
  serviceName: database
  selector: {matchLabels: {app: database}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: database}}
    spec:
      nodeName: win01
      securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
      initContainers:
      - name: make
        image: programs/postgres:1
        command: [cmd, /c, 'C:\make.cmd']
        volumeMounts: [{name: data, mountPath: 'C:\data'}]
      containers:
      - name: app
        image: programs/postgres:1
        command: ['C:\pgsql\bin\postgres.exe', -D, 'C:\data', -h, 0.0.0.0]
        readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: 'C:\data'}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}}
`

// makeDatabase is what the first pod runs on an empty volume.
const makeDatabase = `@if exist C:\data\PG_VERSION exit /b 0
C:\pgsql\bin\initdb.exe -D C:\data -U postgres -A trust -E UTF8 --no-locale || exit /b 1
echo host all all all trust>>C:\data\pg_hba.conf
`

// testPostgres makes a database in a pod, writes 1,000 rows through its Service, and finds them again in the pod that
// takes the place of the first one, which ended in good order. The server starts a program for each connection, and
// one that is asked for.
func testPostgres(t *testing.T) {
	p := npmPackage{"@embedded-postgres/windows-x64", "18.4.0-beta.17",
		"21fc0b0fbf2d7aebbf0472cdab2f6741b39b8156a477daef7dbc52becdb7c6ba"}
	p.needsRoot(t)
	folder := filepath.Join(p.unpacked(t), "native")
	push(t, layers{"program": func(l *testimages.Layer) error {
		l.Dir("Files", 0o755)
		l.Dir("Hives", 0o755)
		l.Text("Files/make.cmd", strings.ReplaceAll(makeDatabase, "\n", "\r\n"))
		return addTree(l, "Files/pgsql", folder)
	}}, testimages.Image{Repository: "programs/postgres", Windows: &testimages.Variant{Layers: []string{"program"}}})

	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Join(driveC("win01"), "database")); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	apply(t, database)
	waitPod(t, "database-0", 3*podWait, isReady)
	t.Logf("Ready after %v", time.Since(began).Round(100*time.Millisecond))
	address := strings.TrimSpace(kubectl(t, "get", "service", "database", "-o", "jsonpath={.spec.clusterIP}")) + ":5432"
	one := connected(t, "porthole-lin01", address)
	one.want(t, "create table facts (number int primary key, fact text)", "")
	began = time.Now()
	for i := range 1000 {
		one.want(t, fmt.Sprintf("insert into facts values (%d, 'fact %d')", i, i), "")
	}
	t.Logf("1,000 inserts took %v", time.Since(began).Round(100*time.Millisecond))
	for _, command := range []string{"create table gone as select * from facts", "drop table gone", "vacuum full facts",
		"checkpoint"} {
		one.want(t, command, "") // they write, rename and delete files
	}
	one.want(t, `copy (select 'of a child') to program 'findstr child > C:\data\said.txt'`, "")
	one.want(t, `select trim(pg_read_file('C:/data/said.txt'), e'\r\n')`, "of a child")
	one.Close()

	ends(t, "pod/database-0")
	waitPod(t, "database-0", podWait, isReady)
	two := connected(t, "porthole-win02", address)
	two.want(t, "select count(*), sum(number), min(fact), version() like 'PostgreSQL 18.4%' from facts",
		"1000 499500 fact 0 t")
	two.Close()
	logs := kubectl(t, "logs", "database-0")
	if !strings.Contains(logs, "database system was shut down at") || strings.Contains(logs, "interrupted") {
		t.Errorf("the first server did not end in good order: %s", logs)
	}
}

// connected is a client of the database in a namespace of the lab.
func connected(t *testing.T, netns, address string) (c *pgClient) {
	t.Helper()
	wait.NoError(t, podWait, "the database answers "+netns, func() error {
		return platformInNetns(netns, func() (err error) {
			c, err = pgDial(address)
			return err
		})
	})
	return c
}

// want runs a query, whose rows are what is wanted: columns apart by spaces, rows by lines.
func (c *pgClient) want(t *testing.T, query, want string) {
	t.Helper()
	if got, err := c.query(query); err != nil || got != want {
		t.Fatalf("%s: %q, %v, want %q", query, got, err, want)
	}
}

// addTree adds a folder of this machine with all that is in it, at a path below Files.
func addTree(l *testimages.Layer, at, folder string) error {
	for above := filepath.Dir(at); above != "Files" && above != "."; above = filepath.Dir(above) {
		l.Dir(above, 0o755)
	}
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(folder, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		name := filepath.Join(at, below)
		if d.IsDir() {
			l.Dir(name, 0o755)
			return nil
		}
		return l.File(name, path, 0o755)
	})
}
