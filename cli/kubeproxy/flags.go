package kubeproxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// kind is the type of a flag's value, as help texts name it.
type kind string

const (
	text     kind = "string"
	boolean  kind = "bool"
	number   kind = "int32"
	decimal  kind = "float32"
	duration kind = "duration"
	list     kind = "strings"
)

// option is one flag. Only the flags that are given are applied: after the configuration file, in the order of
// options().
type option struct {
	name, usage string
	kind        kind
	// linux marks a flag of upstream's Linux modes: it is accepted and written back, and has no effect.
	linux bool
	set   func(s *settings, v string) error
}

// value holds the text that was given to a flag, checked for its kind.
type value struct {
	kind kind
	text string
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return string(v.kind) }

// Set checks and keeps the text of a flag. It is not parsed into the settings here, because flags are applied after the
// configuration file, which is named by a flag itself.
func (v *value) Set(s string) error {
	var err error
	switch v.kind {
	case boolean:
		_, err = strconv.ParseBool(s)
	case number:
		_, err = strconv.ParseInt(s, 10, 32)
	case decimal:
		_, err = strconv.ParseFloat(s, 32)
	case duration:
		_, err = time.ParseDuration(s)
	case list:
		if v.text != "" { // given more than once
			s = v.text + "," + s
		}
	}

	if err == nil {
		v.text = s
	}
	return err
}

// register adds every flag to fs. Parsing stores the texts in values.
func register(fs *pflag.FlagSet, values map[string]*value) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-")) // as upstream: --enable_dsr
	})
	for _, o := range options() {
		v := &value{kind: o.kind}
		values[o.name] = v
		usage := o.usage
		if o.linux {
			usage = "accepted for upstream's sake; no effect here: " + usage
		}
		f := fs.VarPF(v, o.name, shorthand[o.name], usage)
		if o.kind == boolean || o.name == "version" {
			f.NoOptDefVal = "true"
		}
		f.Hidden = o.linux
	}
}

var shorthand = map[string]string{"v": "v"}

// given returns the texts of the flags that were set, by name.
func given(fs *pflag.FlagSet, values map[string]*value) map[string]string {
	out := map[string]string{}
	for name, v := range values {
		if fs.Changed(name) {
			out[name] = v.text
		}
	}
	return out
}

// Setters of the common kinds. The text was checked when the flag was given.

func toText(p func(*settings) *string) func(*settings, string) error {
	return func(s *settings, v string) error { *p(s) = v; return nil }
}

func toBool(p func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) (err error) { *p(s), err = strconv.ParseBool(v); return err }
}

func toBoolPointer(p func(*settings) **bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		b, err := strconv.ParseBool(v)
		*p(s) = &b
		return err
	}
}

func toNumber(p func(*settings) *int32) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		*p(s) = int32(n)
		return err
	}
}

func toNumberPointer(p func(*settings) **int32) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		i := int32(n)
		*p(s) = &i
		return err
	}
}

func toDuration(p func(*settings) *metav1.Duration) func(*settings, string) error {
	return func(s *settings, v string) (err error) { p(s).Duration, err = time.ParseDuration(v); return err }
}

func toDurationPointer(p func(*settings) **metav1.Duration) func(*settings, string) error {
	return func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		*p(s) = &metav1.Duration{Duration: d}
		return err
	}
}

func toList(p func(*settings) *[]string) func(*settings, string) error {
	return func(s *settings, v string) error {
		*p(s) = slices.DeleteFunc(strings.Split(v, ","), func(part string) bool { return part == "" })
		return nil
	}
}

// setGates reads key=true,key=false.
func setGates(s *settings, v string) error {
	if s.Config.FeatureGates == nil {
		s.Config.FeatureGates = map[string]bool{}
	}
	for part := range strings.SplitSeq(v, ",") {
		if part == "" {
			continue
		}
		name, on, _ := strings.Cut(part, "=")
		b, err := strconv.ParseBool(on)
		if err != nil {
			return fmt.Errorf("--feature-gates: %q is not name=true or name=false", part)
		}
		s.Config.FeatureGates[name] = b
	}
	return nil
}

// setModules replaces the levels per file by those of a list like pattern=level,pattern=level.
func setModules(s *settings, v string) error {
	s.Config.Logging.VModule = nil
	for part := range strings.SplitSeq(v, ",") {
		if part == "" {
			continue
		}
		pattern, level, ok := strings.Cut(part, "=")
		n, err := strconv.ParseUint(level, 10, 32)
		if !ok || err != nil {
			return fmt.Errorf("--vmodule: %q is not pattern=level", part)
		}
		s.Config.Logging.VModule = append(s.Config.Logging.VModule,
			logsapi.VModuleItem{FilePattern: pattern, Verbosity: logsapi.VerbosityLevel(n)})
	}
	return nil
}
