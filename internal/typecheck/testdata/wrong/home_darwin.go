package wrong

func home() string { return "/Users" }
