// Package testutil has helpers for tests of several rooms: processes and their ports, writers on a disk that fails, pages that
// all people can read, and the fields of a role. Only tests import it.
package testutil

import (
	"flag"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/fedsim/fedsim/internal/effort"
)

// Ports are given out from these alone. A system takes ports of dialled connections from 32768 or 49152, so that no
// connection takes a port before the process that is to listen there, or while that process is down.
const (
	firstPort = 20000
	ports     = 12000
)

// next is the next port, counted from firstPort. Test binaries that run at the same time have process ids that are close
// to one another, and begin far apart.
var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * 101) }

// Port returns a port of TCP that was free a moment ago, and that no other test of this binary is given.
func Port(t testing.TB) string {
	t.Helper()
	for range ports {
		port := strconv.Itoa(firstPort + int(next.Add(1)%ports))
		if free(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// TwoPorts returns a port of TCP such that the port and the next were free a moment ago.
func TwoPorts(t testing.TB) int {
	t.Helper()
	for last := 0; ; {
		port, err := strconv.Atoi(Port(t))
		if err != nil {
			t.Fatal(err)
		}
		if port == last+1 {
			return last
		}
		last = port
	}
}

func free(port string) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Limit has kill end a process when the test ends, and fails a test whose process runs for longer than it may: who waits
// for the process then sees its end, and shows its log. Otherwise the test would wait until go test stops all tests, which
// leaves the process behind. kill is called for a process that has ended, too, and returns an error then.
func Limit(t testing.TB, kill func() error) {
	t.Helper()
	limit := effort.Of(5*time.Minute, 5*time.Minute, 15*time.Minute)
	if effort.Load() {
		limit = time.Hour
	}
	killAfter(t, limit, kill)
}

func killAfter(t testing.TB, limit time.Duration, kill func() error) {
	t.Helper()
	killed := make(chan error, 1)
	late := time.AfterFunc(limit, func() { killed <- kill() })
	t.Cleanup(func() {
		if !late.Stop() && <-killed == nil {
			t.Errorf("a process was killed since it still ran after %v", limit)
		}
		_ = kill() // has ended, where all is well
	})
}

// Fields writes out the fields of a role, pointers followed, so that two texts differ if a field
// was written in between. Values behind an interface or in a function count by identity only.
// Fields named in without are left out.
func Fields(role any, without ...string) string {
	w := writer{without: without, seen: make(map[uintptr]bool)}
	w.write("", reflect.ValueOf(role))
	return w.out.String()
}

type writer struct {
	out     strings.Builder
	without []string
	seen    map[uintptr]bool
}

func (w *writer) write(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if fmt.Fprintf(&w.out, "%s at %x\n", name, v.Pointer()); v.IsNil() || w.seen[v.Pointer()] {
			return
		}
		w.seen[v.Pointer()] = true
		w.write(name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; !slices.Contains(w.without, field) {
				w.write(name+"."+field, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(&w.out, "%s of %d\n", name, v.Len())
		for i := range v.Len() {
			w.write(fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Interface:
		w.identity(name, v.Elem())
	case reflect.Map, reflect.Func, reflect.Chan:
		w.identity(name, v)
	default:
		fmt.Fprintf(&w.out, "%s = %v\n", name, v)
	}
}

// identity distinguishes values whose fields are not written out.
func (w *writer) identity(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		fmt.Fprintf(&w.out, "%s is nil\n", name)
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan:
		fmt.Fprintf(&w.out, "%s is a %s at %x\n", name, v.Type(), v.Pointer())
	default:
		fmt.Fprintf(&w.out, "%s is a %s, %v\n", name, v.Type(), v)
	}
}

// FewCases has rapid check properties that are slow on a quarter of its usual number of cases, unless the tests are long or
// -rapid.checks says how many. It is called from an init function: the command line is read later, and wins.
func FewCases() {
	if effort.Long() {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}

// Pages lists the pages of the project: the Markdown files below a folder, as paths that begin with it.
func Pages(t *testing.T, root string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			list = append(list, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// CheckPage fails unless a page has a language, a viewport, one main landmark, headings in order and a name for each
// scrolling part. It also fails if the page loads itself again, if a table cannot scroll, or if a text has too little
// contrast, in the light or in the dark.
func CheckPage(t *testing.T, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	counts, level := make(map[string]int), 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		counts[n.Data]++
		switch {
		case n.Data == "html" && attribute(n, "lang") == "":
			t.Error("the page names no language")
		case n.Data == "meta" && strings.EqualFold(attribute(n, "http-equiv"), "refresh"):
			t.Error("the page loads itself again and takes readers from their place")
		case n.Data == "meta" && attribute(n, "name") == "viewport":
			counts["viewport"]++
		case len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6':
			if at := int(n.Data[1] - '0'); at > level+1 {
				t.Errorf("a heading of level %d follows level %d", at, level)
			} else {
				level = at
			}
		case n.Data == "table" && !scrolls(n):
			t.Errorf("a table can neither scroll nor break its words")
		case attribute(n, "tabindex") == "0" && n.Data == "div" && attribute(n, "aria-label") == "":
			t.Errorf("a scrolling part has no name")
		case n.Data == "th" && attribute(n, "scope") == "":
			t.Error("a head of a table has no scope")
		}
	}
	for name, want := range map[string]int{"main": 1, "h1": 1, "title": 1, "viewport": 1} {
		if counts[name] < want || name != "title" && counts[name] > want {
			t.Errorf("the page has %d of %s, want %d", counts[name], name, want)
		}
	}
	contrasts(t, page)
}

// scrolls reports whether a table is in a scrolling part, or breaks its words.
func scrolls(table *html.Node) bool {
	return attribute(table.Parent, "class") == "scroll" || attribute(table, "class") == "now"
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

var variables = regexp.MustCompile(`--(back|panel|text|soft|link): (#[0-9a-fA-F]{6})`)

// contrasts checks the colours of each scheme that the style sets: texts have a contrast of at least 4.5 to 1 with what is
// behind them (WCAG 2.1, success criterion 1.4.3).
func contrasts(t *testing.T, page string) {
	t.Helper()
	schemes := strings.Split(page, ":root {")[1:]
	if len(schemes) < 3 {
		t.Errorf("%d schemes of colours, want light, dark and print", len(schemes))
	}
	colours := make(map[string]string)
	for _, scheme := range schemes {
		rule, _, _ := strings.Cut(scheme, "}")
		for _, m := range variables.FindAllStringSubmatch(rule, -1) {
			colours[m[1]] = m[2]
		}
		for _, text := range []string{"text", "soft", "link"} {
			for _, back := range []string{"back", "panel"} {
				if colours[back] == "" {
					continue
				}
				if c := Contrast(colours[text], colours[back]); c < 4.5 && (text != "link" || !strings.Contains(rule, "#000000")) {
					t.Errorf("%s %s on %s %s has a contrast of %.2f, want at least 4.5", text, colours[text], back, colours[back], c)
				}
			}
		}
	}
}

// Contrast returns the ratio of contrast of two colours, "#rrggbb", from 1 to 21 (WCAG 2.1).
func Contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance of a colour, from 0 to 1 (WCAG 2.1).
func luminance(colour string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			return math.NaN()
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
