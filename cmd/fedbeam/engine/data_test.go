package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/experiment"
)

// stores starts a store like Amazon's and a store like Google's on this machine. They answer the documented calls for an
// object's size and its bytes: HEAD and GET /BUCKET/NAME, and GET /storage/v1/b/BUCKET/o/NAME for Google's size.
// objects holds their content by BUCKET/NAME.
func stores(t *testing.T, objects map[string][]byte) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		about, ofGoogle := strings.CutPrefix(name, "storage/v1/b/")
		if ofGoogle {
			name = strings.Replace(about, "/o/", "/", 1)
		}
		object, there := objects[name]
		bucket, key, _ := strings.Cut(name, "/")
		switch {
		case !there:
			http.Error(w, `<Error><Code>NoSuchKey</Code></Error>`, http.StatusNotFound)
		case ofGoogle:
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]string{"bucket": bucket, "name": key, "size": strconv.Itoa(len(object))}) //nolint:errcheck // who asks sees it
		default:
			w.Header().Set("Content-Length", strconv.Itoa(len(object)))
			if r.Method != http.MethodHead {
				w.Write(object) //nolint:errcheck // who asks sees it
			}
		}
	}))
	t.Cleanup(s.Close)
	for name, value := range map[string]string{
		"STORAGE_EMULATOR_HOST": s.URL, "AWS_ENDPOINT_URL": s.URL, "AWS_REGION": "none", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
		"AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
}

// openData opens an experiment on data with that name.
func openData(t *testing.T, data string) (*experiment.Experiment, error) {
	t.Helper()
	var settings []config.Setting
	for key, value := range map[string]string{"algorithm": "lfl-sgdmf", "rounds": "3", "baselines": "quick", "data": data, "out": t.TempDir()} {
		settings = append(settings, config.Setting{Key: key, Value: value, Origin: key})
	}
	c, err := config.Resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), c, nil)
}

// Packed ratings of a store train to the model of the simulator on the ratings that were packed, and no copy of them stays.
func TestDataOfStores(t *testing.T) {
	var packed bytes.Buffer
	if _, err := read.Pack(t.Context(), "synthetic:small", read.Options{}, &packed); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for i := range 60 {
		rows = append(rows, fmt.Sprintf("u%d,i%d,%d", i/6, i%6, 1+i%5))
	}
	stores(t, map[string][]byte{
		"bucket/sets/small.pack": packed.Bytes(), "bucket/cut.pack": packed.Bytes()[:packed.Len()/2], "bucket/table.csv": []byte("user,item,rating\n" + strings.Join(rows, "\n")),
	})
	t.Setenv("TMPDIR", t.TempDir())
	plain, err := openData(t, "synthetic:small")
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, plain, nil)
	for _, scheme := range []string{"s3", "gs"} {
		e, err := openData(t, scheme+"://bucket/sets/small.pack")
		if err != nil {
			t.Fatal(err)
		}
		if e.Split.Train.Packed == nil {
			t.Errorf("%s: packed ratings were unpacked", scheme)
		}
		same(t, train(t, e, New(Options{Runner: Prism, Shards: 2})), want)
		if e, err = openData(t, scheme+"://bucket/table.csv"); err != nil || e.Data.Len() != 60 {
			t.Errorf("%s: a table of 60 ratings: %v", scheme, err)
		}
		for name, reason := range map[string]error{"cut.pack": pack.ErrNotPacked, "absent.pack": nil} {
			url := scheme + "://bucket/" + name
			if _, err = openData(t, url); err == nil || !strings.Contains(err.Error(), url) || reason != nil && !errors.Is(err, reason) {
				t.Errorf("%s: error %v; it should name what cannot be read, and why", url, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "fedbeam-data-*")); err != nil || len(left) > 0 {
		t.Errorf("copies stay: %v (%v)", left, err)
	}
}

func TestUnknownStore(t *testing.T) {
	if _, err := openData(t, "ftp://host/x.csv"); err == nil || !strings.Contains(err.Error(), "ftp") {
		t.Errorf("error %v; it should name the scheme", err)
	}
}
