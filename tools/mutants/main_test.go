package main

import "testing"

// Every mistake can still be planted: a change of the code takes its mutant with it.
func TestMutantsCanBePlanted(t *testing.T) {
	if err := run("../..", "", false, true); err != nil {
		t.Error(err)
	}
	if len(mutants) < 12 {
		t.Errorf("only %d mistakes", len(mutants))
	}
}
