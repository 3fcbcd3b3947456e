package tutorial

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// command is one command of a document.
type command struct {
	line int      // in the document, from 1
	text string   // for the shell; with a here-document it has several lines
	want []string // lines that it prints, among others
}

// parse returns the commands of a document in Markdown. Each block of code must be of the language console, so that
// none is forgotten.
func parse(document string) (list []command, err error) {
	inside, end := false, "" // end: the last line of a here-document
	for i, line := range strings.Split(document, "\n") {
		var last *command
		if len(list) > 0 {
			last = &list[len(list)-1]
		}

		switch {
		case end != "":
			last.text += "\n" + line
			if line == end {
				end = ""
			}
		case strings.HasPrefix(line, "```") && !inside && line != "```console":
			return nil, fmt.Errorf("line %d: a block of code that is not of the language console is not run", i+1)
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case !inside:
		case strings.HasPrefix(line, "# "):
			list = append(list, command{line: i + 1, text: line[2:]})
			if m := hereDocument.FindStringSubmatch(line); m != nil {
				end = m[1]
			}
		case last == nil:
			return nil, fmt.Errorf("line %d: output without a command", i+1)
		default:
			last.want = append(last.want, line)
		}
	}
	if inside || end != "" {
		return nil, fmt.Errorf("the last block of code has no end")
	}
	return list, nil
}

var (
	hereDocument = regexp.MustCompile(`<<'(\w+)'$`)
	// number is a run of digits, with the unit of an age behind it: "31s" stands for "2m3s" too.
	number = regexp.MustCompile(`\d+`)
	age    = regexp.MustCompile(`^\d+[smh]$`)
)

// missing returns the first wanted line that is not in the output; "" if all are there. Each needs a line of its own,
// in any order: nodes become Ready as they please. Spaces count as one. Words that begin with a digit, such as times,
// ages and addresses, may have other digits.
func missing(want []string, output string) string {
	lines := strings.Split(output, "\n")
	for _, w := range want {
		form := loose(w)
		i := slices.IndexFunc(lines, form.MatchString)
		if i < 0 {
			return w
		}
		lines = slices.Delete(lines, i, i+1)
	}
	return ""
}

func loose(line string) *regexp.Regexp {
	words := strings.Fields(line)
	for i, w := range words {
		quoted := regexp.QuoteMeta(w)
		switch first := strings.TrimLeft(w, "("); {
		case age.MatchString(w):
			quoted = `\d\w*`
		case first != "" && first[0] >= '0' && first[0] <= '9':
			quoted = number.ReplaceAllString(quoted, `\d+`)
		}
		words[i] = quoted
	}
	return regexp.MustCompile(strings.Join(words, `\s+`))
}
