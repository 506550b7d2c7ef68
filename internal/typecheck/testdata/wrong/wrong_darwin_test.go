package wrong

var homeInTest int = home()
