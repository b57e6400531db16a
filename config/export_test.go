package config

// ParseNumber is what the tests of Number read with.
var ParseNumber = parseNumber
