mod four;
mod six;
