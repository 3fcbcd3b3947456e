package env

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestInFile(t *testing.T) {
	for text, want := range map[string]string{
		"KEY='value'":                                  "value",
		"OTHER='x'\nKEY='value'\n":                     "value",
		"  \tKEY='value'":                              "value",
		"# KEY='no'\n\n \t\nKEY='yes' # why":           "yes",
		"KEY='a b = \"c\" $HOME \\n'":                  `a b = "c" $HOME \n`,
		"KEY='first\n second\n'":                       "first\n second\n",
		"OTHER='one\nKEY=no'\nKEY='yes'":               "yes",
		"KEY='first'\nKEY='second'":                    "first",
		"KEY=''":                                       "",
		"KEY= 'value'":                                 "",
		"KEY='value'\r\nOTHER='x'\r\n":                 "value",
		"KEY='found'\nand what follows does not count": "found",
		"":                         "none",
		"KEYS='x'\nkey='y'":        "none",
		"KEY=value":                "line 1: the value must be enclosed in single quotes",
		"KEY=\"value\"":            "line 1: the value must be enclosed in single quotes",
		"OTHER='x'\nKEY ='value'":  "line 2: there are blanks before the '='",
		"KEY":                      "line 1: there is no '='",
		"='value'":                 "line 1: there is no name before the '='",
		"#\nKEY='value\nand more":  "line 2: the single quote is not closed",
		"KEY='value' and more":     "line 1: something follows the closing quote",
		"OTHER='a\nb'c\nKEY='yes'": "line 2: something follows the closing quote",
	} {

		got, ok, err := InFile(text, "KEY")
		switch {
		case err != nil:
			got = err.Error()
		case !ok:
			got = "none"
		}
		if got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestFromFile: what is missing is an error unless the reference is optional; what cannot be read always is.
func TestFromFile(t *testing.T) {
	yes := true
	files := map[string]string{"shared/good": "KEY='value'\nEMPTY=''", "shared/bad": "nonsense"}
	for _, c := range []struct {
		path, key string
		optional  *bool
		want      string
	}{
		{"good", "KEY", nil, "[{V value}]"},
		{"good", "EMPTY", nil, "[{V }]"},
		{"good", "NONE", nil, `environment variable key "NONE" not found in file "good"`},
		{"good", "NONE", &yes, "[]"},
		{"none", "KEY", nil, `environment variable key "KEY" not found in file "none"`},
		{"none", "KEY", &yes, "[]"},
		{"bad", "KEY", &yes, `reading the variable V of file "bad" of volume "shared": line 1: there is no '='`},
		{"away", "KEY", &yes, `reading the variable V of file "away" of volume "shared": broken`},
	} {

		in := Inputs{Pod: &v1.Pod{}, Container: &v1.Container{Env: []v1.EnvVar{{Name: "V", ValueFrom: &v1.EnvVarSource{
			FileKeyRef: &v1.FileKeySelector{VolumeName: "shared", Path: c.path, Key: c.key, Optional: c.optional}}}}},
			File: func(volume, path string) (string, error) {
				text, ok := files[volume+"/"+path]
				switch {
				case path == "away":
					return "", errors.New("broken")
				case !ok:
					return "", fmt.Errorf("opening: %w", ErrNotFound)
				}
				return text, nil
			}}
		vars, err := Container(in)
		got := fmt.Sprint(vars)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && !(err != nil && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s of %s: %s, want %s", c.key, c.path, got, c.want)
		}
	}
}
