package check

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// shown returns the findings for people: of several clients, a line for each in which all is in order.
func (x *Report) shown() []finding {
	bad := make(map[string]bool)
	for _, f := range x.Findings {
		bad[f.client()] = bad[f.client()] || f.Is != Fine
	}
	var out []finding
	for _, f := range x.Findings {
		who := f.client()
		switch {
		case x.under == "" || bad[who]:
			out = append(out, f)
		case len(out) == 0 || out[len(out)-1].File != who:
			out = append(out, finding{Is: Fine, File: who, Says: "all is well"})
		}
	}
	return out
}

func (f *finding) client() string {
	who, _, _ := strings.Cut(filepath.ToSlash(f.File), "/")
	return who
}

// Print writes the findings as a table, what mends a finding on the next line.
func (x *Report) Print(w io.Writer) error {
	shown, wide := x.shown(), 0
	for _, f := range shown {
		wide = max(wide, len(f.File))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "state of the %s\n", cmp.Or(x.Place, "party"))
	for _, f := range shown {
		fmt.Fprintf(&b, "%-5s  %-*s  %s\n", f.Is, wide, f.File, f.Says)
		if f.Do != "" {
			fmt.Fprintf(&b, "%-5s  %-*s  -> %s\n", "", wide, "", f.Do)
		}
	}
	switch {
	case x.Wrong > 0:
	case x.Busy > 0:
		fmt.Fprintf(&b, "nothing wrong was found; %d files are in use and were not read\n", x.Busy)
	default:
		b.WriteString("all is well\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
