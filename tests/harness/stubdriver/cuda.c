int cuInit(unsigned flags) { return (int)flags; }
