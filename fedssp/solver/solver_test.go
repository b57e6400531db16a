package solver

import (
	"reflect"
	"testing"
)

// A solver writes seven methods: Base has the others. The methods of Solver are counted by reflection.
func TestSevenMethods(t *testing.T) {
	all, base := reflect.TypeFor[Solver](), reflect.TypeFor[Base]()
	var own []string
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		if _, ok := base.MethodByName(name); !ok {
			own = append(own, name)
		}
	}
	if len(own) != 7 {
		t.Errorf("a solver must write %v; seven methods were expected", own)
	}
}
