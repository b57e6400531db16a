package config

import "strings"

// Values says in a few words what the key may be: its words, its range with the unit, or its kind.
func (k *Key) Values() string {
	switch k.Kind {
	case Word:
		if len(k.Words) == 0 {
			return "name"
		}
		return strings.Join(k.Words, ", ")
	case Text:
		return "text"
	case Seed:
		return "whole number"
	case Whole:
		return "whole number, " + k.Range.String() + k.unit()
	default:
		return k.Range.String() + k.unit()
	}
}

func (k *Key) unit() string {
	if k.Unit == "" {
		return ""
	}
	return " " + k.Unit
}

// Standard says what the value is if none is given: the default, how auto is found, or none.
func (k *Key) Standard() string {
	switch {
	case k.Auto != "":
		return "auto: " + k.Auto
	case k.Default == "":
		return "none"
	default:
		return k.Default
	}
}

// String names the scope.
func (s Scope) String() string {
	return [...]string{Agreed: "agreed", Simulated: "simulation", Deployed: "deployment", Own: "own"}[s]
}
