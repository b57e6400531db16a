package party

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/experiment"
)

// PublicFile holds the public part of a server's session, in its state.
const PublicFile = "public.json"

// ReadPublic reads the public part of the session of a folder.
func ReadPublic(dir string) (*agreement.Public, error) {
	p, _, err := decodePublic(dir)
	return p, err
}

func decodePublic(dir string) (*agreement.Public, []byte, error) {
	path := filepath.Join(dir, PublicFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := agreement.Decode(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, text, nil
}

// OpenPublic opens the experiment of the session of a folder.
func OpenPublic(dir string) (*experiment.Experiment, error) {
	p, err := ReadPublic(dir)
	if err != nil {
		return nil, err
	}
	return agreement.Open(p)
}

// statement is an encoding of the public part, setting by setting.
type statement struct {
	Config map[string]string `json:"config"`
	Facts  json.RawMessage   `json:"facts"`
}

// otherIn names the settings that are others in b, in order.
func (a statement) otherIn(b statement) []string {
	var list []string
	for key, value := range a.Config {
		if b.Config[key] != value {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

func (a statement) otherFacts(b statement) (facts, start bool) {
	var x, y map[string]json.RawMessage
	if errors.Join(json.Unmarshal(a.Facts, &x), json.Unmarshal(b.Facts, &y)) != nil {
		return true, false
	}
	start = !bytes.Equal(x["start"], y["start"])
	delete(x, "start")
	delete(y, "start")
	return !maps.EqualFunc(x, y, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }), start
}

// differences names what two encodings of what is public differ in.
func differences(a, b []byte) string {
	var x, y statement
	if errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)) != nil {
		return "its form"
	}
	list := x.otherIn(y)
	facts, start := x.otherFacts(y)
	if facts {
		list = append(list, "the items or users")
	}
	if start {
		list = append(list, algorithm.StartFrom.Name)
	}
	if len(list) == 0 {
		list = append(list, "values that this version derives")
	}
	return strings.Join(list, ", ")
}

// OtherSettings names the settings in which two sessions differ, in order.
func OtherSettings(a, b *agreement.Public) ([]string, error) {
	var of [2]statement
	for k, p := range []*agreement.Public{a, b} {
		text, err := p.Encode()
		if err == nil {
			err = json.Unmarshal(text, &of[k])
		}
		if err != nil {
			return nil, err
		}
	}
	return of[0].otherIn(of[1]), nil
}
