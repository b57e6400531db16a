package config

// ParseNumber gives tests the parser of Number.
var ParseNumber = parseNumber
