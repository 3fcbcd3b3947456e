package main

import (
	"archive/zip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRealSignatures signs a release with what the field signs with, and has the same programs verify it: rpmsign the
// rpm, gpg the list of sums, osslsigncode a program for Windows.
func TestRealSignatures(t *testing.T) {
	for _, program := range []string{"gpg", "gpg-agent", "rpmsign", "rpmkeys", "osslsigncode"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: `make deps`", program)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	keys, err := os.MkdirTemp("/tmp", "gpg") // the agent's socket needs a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", keys)
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--kill", "gpg-agent").Run()
		_ = os.RemoveAll(keys)
	})
	certificate, key := codeSigning(t)
	ran(t, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "test@porthole.dev", "rsa3072",
		"sign", "never")

	t.Setenv(signPackages,
		`f() { case "$1" in *.rpm) rpmsign --define "__gpg $(command -v gpg)" --define "_gpg_name test@porthole.dev" --addsign "$1" ;; esac; }; f`)
	t.Setenv(signSums, "gpg --batch --quiet --detach-sign --armor")
	t.Setenv(signPrograms, `f() { case "$1" in */porthole.exe) osslsigncode sign -certs `+certificate+` -key `+key+
		` -in "$1" -out "$1.signed" && mv "$1.signed" "$1" ;; esac; }; f`)
	r := tree(t, builtFor(t, "windows"), 0o644)
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}

	public := filepath.Join(t.TempDir(), "key.asc")
	ran(t, "gpg", "--batch", "--armor", "--output", public, "--export", "test@porthole.dev")
	sums := filepath.Join(r.out, "porthole-v1.2.3.SHA256SUMS")
	ran(t, "gpg", "--batch", "--verify", sums+".asc", sums)
	rpm, database := filepath.Join(r.out, "porthole-1.2.3-1.x86_64.rpm"), t.TempDir()
	if out, err := exec.Command("rpmkeys", "--dbpath", database, "-K", rpm).CombinedOutput(); err == nil {
		t.Errorf("without the key rpm says %s", out)
	}
	ran(t, "rpmkeys", "--dbpath", database, "--import", public)
	if out, ok := ran(t, "rpmkeys", "--dbpath", database, "-K", rpm); ok &&
		!strings.Contains(out, "digests signatures OK") {
		t.Errorf("rpm says %s", out)
	}
	if out, ok := ran(t, "osslsigncode", "verify", "-CAfile", certificate, "-in", unzipped(t, r, "porthole.exe")); ok &&
		!strings.Contains(out, "Signature verification: ok") {
		t.Errorf("osslsigncode says %s", out)
	}
}

// builtFor is a real program for a system.
func builtFor(t *testing.T, system string) []byte {
	t.Helper()
	to := filepath.Join(t.TempDir(), "program")
	c := exec.Command("go", "build", "-ldflags", "-s -w", "-o", to, "porthole.dev/porthole/cmd/ovn_cni")
	c.Env = append(os.Environ(), "GOOS="+system)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// codeSigning makes a certificate for programs that has signed itself, and returns the files of it and of its key.
func codeSigning(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Porthole test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, &c, &c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// unzipped takes a file out of the archive for Windows.
func unzipped(t *testing.T, r release, name string) string {
	t.Helper()
	in, err := zip.OpenReader(filepath.Join(r.out, "porthole-v1.2.3-windows-amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	from, err := in.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
