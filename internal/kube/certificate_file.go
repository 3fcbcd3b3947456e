package kube

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/platform"
)

// certificateStore keeps the current certificate of one purpose with its key.
type certificateStore interface {
	certificate.Store
	// CurrentPath returns the file of the current certificate, which need not exist.
	CurrentPath() string
}

// newStore returns the store of the certificates called name ("kubelet-client") in dir. first are the files from which
// the first certificate and its key may come; they may be "". oneFile asks for the store of Windows on any system.
//
// On Linux it is client-go's, which upstream's kubelet uses too: dated files, and a symbolic link to the newest. On
// Windows a process needs a privilege to make symbolic links. Without it client-go's store fails after each
// certificate that it got, and the manager requests the next one seconds later, for ever (seen on Wine 8.0, whose
// os.Symlink makes nothing).
func newStore(name, dir string, first [2]string, oneFile bool) (certificateStore, error) {
	if oneFile || platform.IsWindows {
		return &pairFile{name: name, dir: dir, first: first}, nil
	}
	store, err := certificate.NewFileStore(name, dir, dir, first[0], first[1])
	if err != nil {
		return nil, fmt.Errorf("opening the store of certificates %s: %w", name, err)
	}
	return store, nil
}

// pairFile is a store of one file, NAME-current.pem, that holds the current certificate and its key. Earlier
// certificates are not kept. The file has the name and the content of the one that upstream's kubelet writes, so that
// kubeconfigs that name it stay right; if upstream's kubelet left a link there, the first new certificate replaces the
// link.
type pairFile struct {
	name, dir string
	first     [2]string // certificate and key that are used while there is no file; may be ""
}

// CurrentPath returns the path of the file.
func (s *pairFile) CurrentPath() string { return filepath.Join(s.dir, s.name+"-current.pem") }

// Current reads the certificate. If there is none yet, the error is a *certificate.NoCertKeyError. A file that cannot
// be read or is no certificate is another error: it is not replaced by a new request.
func (s *pairFile) Current() (*tls.Certificate, error) {
	for _, files := range [][2]string{{s.CurrentPath(), s.CurrentPath()}, s.first} {
		if files[0] == "" || files[1] == "" {
			continue
		}
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading certificate and key from %s: %w", files[0], err)
		}
		return &pair, nil
	}
	none := certificate.NoCertKeyError(fmt.Sprintf("there is no certificate %s, and none in %q", s.CurrentPath(),
		s.first[0]))
	return nil, &none
}

// Update replaces the certificate. The old one stays if the new one is not valid or cannot be written.
func (s *pairFile) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate %s: %w", s.name, err)
	}
	key, _ := pem.Decode(keyPEM)
	if key == nil {
		return nil, fmt.Errorf("the key of the new certificate %s is not PEM", s.name)
	}
	var text bytes.Buffer
	for _, c := range certs { // the leaf, then what leads to the authority
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	if err := pem.Encode(&text, key); err != nil {
		return nil, err
	}

	pair, err := tls.X509KeyPair(text.Bytes(), text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the new certificate %s: %w", s.name, err)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of certificates: %w", err)
	}
	if err := atomicfile.WriteThrough(s.CurrentPath(), text.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("storing the new certificate %s: %w", s.name, err)
	}
	return &pair, nil
}
