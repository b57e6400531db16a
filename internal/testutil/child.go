// Package testutil has helpers for tests of several rooms: processes and their ports, writers on a disk that fails, and the
// fields of a role. Only tests import it.
package testutil

import (
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
