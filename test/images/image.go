// Package images makes images of programs, and pushes them to a registry: what a suite of tests names and what cannot
// be had here.
package images

// WindowsVersions are those of the emulated hosts. A host looks at the build only.
var WindowsVersions = []string{"10.0.17763.7314", "10.0.20348.3695", "10.0.26100.4061"}

// Image is one that tests name. Its layers are shared with other images where they are equal. Tags differ in their
// configuration, because tests tell them apart.
type Image struct {
	Repository string // below the registry
	Tags       []string
	Linux      *Variant // nil: none
	Windows    *Variant
	Versions   []string // of Windows that the image is made for; none: WindowsVersions
}

func (i Image) versions() []string {
	if len(i.Versions) > 0 {
		return i.Versions
	}
	return WindowsVersions
}

// Variant is an image for one system.
type Variant struct {
	Layers      []string // names of layers, lowest first
	Entrypoint  []string
	Args        []string
	Env         []string
	User        string
	Dir         string
	Volumes     []string // paths in the image
	ArgsEscaped bool     // of Windows: the entry point is one word, a command line
}

// Starting is v with a program to start and its arguments.
func (v *Variant) Starting(entrypoint []string, args ...string) *Variant {
	v.Entrypoint, v.Args = entrypoint, args
	return v
}

// As is v for another user.
func (v *Variant) As(user string) *Variant {
	v.User = user
	return v
}
